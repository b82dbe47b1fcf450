"""Fleets of hosts that are reached by ssh, as a plan names them.

    {kind: ssh, inventory: fleet.yaml} ─► Ssh ─ factory ─► HostFleets ─► RemoteFleet, for each run
                                           │     └─ of a script ─► ScriptFleets
                                           └─ links ─► a proxy on the host of each learner
    {kind: hosts, hosts: [10.0.0.3], pattern: train.py} ─► HostTraining ─► AdoptedFleets

Hosts are reached when a plan is compared with the fleet, not before. What a fleet of hosts needs
is imported as late: a plan can be read without asyncssh.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.units import Duration
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.attached.settings import OfOthers
from chaoslab.fleet.local.slowdown import said
from chaoslab.fleet.remote.inventory import HostAccess, Inventory, load, load_access
from chaoslab.fleet.remote.ssh.access import is_host
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.proxied.settings import Embedded
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS

if TYPE_CHECKING:
    from chaoslab.fleet.remote.adopting import AdoptedFleets


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """Hosts that are there already, reached by ssh: a host agent on each runs the nodes, also those
    of `training.script`.
    """

    inventory: str = ""
    """File that says which node runs on which hosts, and how they are reached."""
    lease_s: Duration = 30.0
    """A host ends its nodes and undoes all faults when it heard nothing for this long."""

    default_links: ClassVar[str] = "embedded"
    runs_here: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _require_lease(self.lease_s)

    def named_files(self) -> tuple[str, ...]:
        """The inventory."""
        return (self.inventory,) if self.inventory else ()

    def read(self) -> Inventory:
        """The inventory. PlanError if it is missing or has mistakes."""
        if not self.inventory:
            raise PlanError(
                "the ssh fleet needs an inventory of its hosts: write `--inventory fleet.yaml`, or "
                "`inventory: fleet.yaml` below `fleet`",
                key="inventory",
            )
        return load(Path(self.inventory))

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Region, generation and other labels of learners by name."""
        return self.read().labels

    def factory(self, request: FleetRequest) -> FleetFactory:
        """Factory that reaches the hosts when its abilities are asked for. AbilityError without
        asyncssh.
        """
        inventory = self.read()
        if inventory.slices:
            raise PlanError("has slices, whose hosts a cloud knows: use --fleet tpu-vm",
                            key="inventory")  # fmt: skip
        if request.commands:
            inventory.require_workers(request.commands)
        else:
            inventory.require(request.learners)
        inventory.ssh.require_files(self.inventory)
        with _asyncssh():
            from chaoslab.fleet.remote.contact import Terms  # noqa: PLC0415
            from chaoslab.fleet.remote.factory import HostFleets  # noqa: PLC0415  # asyncssh
            from chaoslab.fleet.remote.scripts import ScriptFleets  # noqa: PLC0415  # asyncssh
        fleets = ScriptFleets if request.commands else HostFleets
        return fleets(inventory, request, Terms(lease_s=self.lease_s, lost_s=self.lease_s))

    def links(self, kind: str, settings: LinksSettings, seed: int) -> LinksFactory:
        """Links by a proxy on the host of each learner."""
        if kind == NO_LINKS:
            return settings.factory(seed)
        if not isinstance(settings, Embedded):
            raise AbilityError(f"there are no links {kind!r} between hosts: use embedded")
        from chaoslab.fleet.remote.links import HostLinks  # noqa: PLC0415  # a fleet of hosts

        return HostLinks.factory(seed)

    def slowing(self, mechanism: Mechanism) -> str:
        """Slowing as on this machine: the hosts decide."""
        return said(mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraining(OfOthers):
    """A training of your own (`training.script`) that runs on hosts already, reached by ssh: a host
    agent on each finds it and breaks it. It goes on after the run.
    """

    hosts: tuple[str, ...] = ()
    """Names or addresses of the hosts, as ssh dials them."""
    pattern: str = ""
    """Regular expression for command lines on the hosts. On one: of its launcher, or of each
    worker; on several: of each worker, which is a launcher with all that it has started, or a
    process."""
    inventory: str = ""
    """File that says how they are reached, by its keys `ssh` and `python`; left out: as you, at
    port 22, with the usual keys."""
    lease_s: Duration = 30.0
    """Hosts of a training that goes on leave it as it was when they heard nothing for this long."""

    kind: ClassVar[str] = "hosts"

    def __post_init__(self) -> None:
        _require_lease(self.lease_s)
        for host in self.hosts:
            if not is_host(host):
                text = f"{host!r} is no name or address of a host: a user or a port of ssh belongs"
                raise PlanError(f"{text} in an inventory", key="hosts")
        if len(set(self.hosts)) < len(self.hosts):
            raise PlanError("a host is named twice", key="hosts")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise PlanError(f"is no regular expression: {error}", key="pattern") from error

    def named_files(self) -> tuple[str, ...]:
        """The inventory."""
        return (self.inventory,) if self.inventory else ()

    @property
    def is_script(self) -> bool:
        """Whether it is said what of the hosts is a worker."""
        return bool(self.pattern)

    def find(self) -> Sequence[Found]:
        """The nodes that run now. AbilityError if there are none, or a host cannot be reached."""
        return self.factory(FleetRequest()).find()

    def printed(self, nodes: Sequence[Found]) -> Mapping[str, Sequence[str]]:
        """The last lines that each node has printed to a file of its host."""
        return self.factory(FleetRequest()).printed(nodes)

    def factory(self, request: FleetRequest) -> "AdoptedFleets":
        """Factory that reaches the hosts when it is asked for something. AbilityError without
        asyncssh.
        """
        if not self.hosts:
            raise PlanError("is empty: write [10.0.0.3]", key="hosts")
        if request.learners and request.reading is None:
            text = "is a training of your own: say how it is read with `training.script`"
            raise PlanError(text, key="kind")
        access = load_access(Path(self.inventory)) if self.inventory else HostAccess()
        access.ssh.require_files(self.inventory)
        with _asyncssh():
            from chaoslab.fleet.remote.adopting import AdoptedFleets  # noqa: PLC0415  # asyncssh
            from chaoslab.fleet.remote.contact import Terms  # noqa: PLC0415
        terms = Terms(lease_s=self.lease_s, lost_s=self.lease_s)
        return AdoptedFleets(access, self.hosts, self.pattern, request, terms)


def _require_lease(lease_s: float) -> None:
    if lease_s < 2:
        raise PlanError(f"must be at least 2s, got {lease_s:g}s", key="lease")


@contextmanager
def _asyncssh() -> Iterator[None]:
    """Import what needs asyncssh: AbilityError without it."""
    try:
        yield
    except ImportError as error:
        if error.name != "asyncssh":
            raise
        raise AbilityError(
            "hosts are reached by asyncssh, which is missing: pip install 'chaoslab[ssh]'"
        ) from error
