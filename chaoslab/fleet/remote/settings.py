"""The ssh fleet as a plan names it: `fleet: {kind: ssh, inventory: fleet.yaml}`.

    inventory ─► Ssh ─ factory ─► HostFleets ─ code, libraries ─► RemoteFleet, one for each run
                  └─ links ─► a proxy on the host of each learner

Hosts are reached when a plan is compared with the fleet, not before. What a fleet of hosts needs
is imported as late: a plan can be read without asyncssh.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.units import Duration
from chaoslab.fleet.local.slowdown import said
from chaoslab.fleet.remote.inventory import Inventory, load
from chaoslab.fleet.settings import FleetFactory, FleetRequest
from chaoslab.fleet.stressors import Mechanism
from chaoslab.links.proxied.settings import Embedded
from chaoslab.links.settings import LinksFactory, LinksSettings
from chaoslab.plan.model import NO_LINKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """Hosts that are there already, reached by ssh: a host agent on each runs the nodes."""

    inventory: str = ""
    """File that says which node runs on which hosts, and how they are reached."""
    lease_s: Duration = 30.0
    """A host ends its nodes and undoes all faults when it heard nothing for this long."""

    default_links: ClassVar[str] = "embedded"
    runs_here: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.lease_s < 2:
            raise PlanError(f"must be at least 2s, got {self.lease_s:g}s", key="lease")

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
        inventory.require(request.learners)
        inventory.ssh.require_files(self.inventory)
        try:
            from chaoslab.fleet.remote.contact import Terms  # noqa: PLC0415
            from chaoslab.fleet.remote.factory import HostFleets  # noqa: PLC0415  # asyncssh
        except ImportError as error:
            if error.name != "asyncssh":
                raise
            raise AbilityError(
                "the ssh fleet needs asyncssh: pip install 'chaoslab[ssh]'"
            ) from error
        return HostFleets(inventory, request, Terms(lease_s=self.lease_s, lost_s=self.lease_s))

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
