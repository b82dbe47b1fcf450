"""Fleet of hosts, some from a provider, which are replaced during a run.

    SliceManager ─ make_ready (its thread) ──► code and libraries on the new hosts
                ├ take_in (the fleet's) ────► their undo entries
                ├ start_hosts (its thread) ─► their agents
                └ begin (the fleet's) ──────► rehost: the node's place is there now ─► restart

All else is `SlicedFleet` and `RemoteFleet`.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.provider import ProvidedHost, ProviderError
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.factory import HostFleets
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.settings import FleetRequest
from chaoslab.fleet.slices.fleet import SlicedFleet
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.undo.base import UndoLog

_READY_S: Final = 2400.0
"""Time limit of the delivery to a new host, libraries of an accelerator included."""
Bring: TypeAlias = Callable[[str, Sequence[ProvidedHost]], Coroutine[Any, Any, list[HostAddress]]]
"""Brings what the new hosts of a node lack; where they are."""


class TpuVmFleet(SlicedFleet, RemoteFleet):
    """A remote fleet whose learners are on slices."""

    _bring: Bring
    _ready: dict[str, list[HostAddress]]
    _agents: dict[str, Callable[[], None]]
    """Starts the agents of a node's new hosts, by node."""

    def use_hosts(self, bring: Bring) -> None:
        """Say how new hosts are made ready; called once, before the fleet is entered."""
        self._bring, self._ready, self._agents = bring, {}, {}

    def make_ready(self, name: str, hosts: Sequence[ProvidedHost]) -> None:
        """See `manager.Hosts`."""
        self._ready[name] = self._loop.run(self._bring(name, hosts), within_s=_READY_S)

    def take_in_hosts(self, name: str) -> None:
        """See `manager.Hosts`. A node that lives keeps its own."""
        if not self.nodes[name].is_alive:
            self._agents[name] = self.take_in(self._ready[name])

    def start_hosts(self, name: str) -> None:
        """See `manager.Hosts`."""
        if start := self._agents.pop(name, None):
            start()

    def lose(self, name: str, why: str) -> None:
        """See `manager.Hosts`."""
        if name in self.nodes:
            self.lost(name, why)

    def is_gone_for_good(self, host: str) -> bool:
        """As the provider says of the slices of its nodes."""
        owners = [name for name in self.nodes if host in self.hosts_of(name)]
        return any(map(self.is_taken, owners))

    def begin(self, name: str) -> int:
        """Move the node to the hosts that were made ready for it, and start it there.

        One that lives stays where it is, if that is one of these hosts; else FleetError, until it
        is known to be lost.
        """
        hosts = self._ready.get(name, [])
        if self.nodes[name].is_alive:
            if hosts and self._host_of(name).name != hosts[0].address:
                self.lose(name, "its slice was replaced")
                raise FleetError(f"{name} is still being lost with its former slice")
        elif hosts:
            self.rehost(name, hosts)
        self._ready.pop(name, None)
        return super().begin(name)


KIND: Final = "tpu-vm"


class SliceFleets(HostFleets):
    """Factory of fleets on slices: asks the provider for hosts, and makes a fleet for each run.

        inventory ─► Provider.hosts ─► inventory of addresses ─► HostFleets ─► TpuVmFleet

    Hosts of slices are asked for anew for each run: a repair may have replaced them since. Their
    host keys are those that the provider's API tells.
    """

    kind = KIND
    fleet = TpuVmFleet

    def __init__(
        self, inventory: Inventory, request: FleetRequest, terms: Terms, provider: TpuProvider
    ) -> None:
        """AbilityError if a slice is not up."""
        self._written, self._provider = inventory, provider
        self._hosts: dict[str, tuple[HostAddress, str]] = {}
        """Hosts of slices by address, with their learner."""
        super().__init__(self._with_addresses(), request, terms)

    @property
    def addresses(self) -> Sequence[HostAddress]:
        """The hosts that there are now, those of slices with their keys."""
        hosts = self.inventory.hosts
        return [self._hosts[host][0] if host in self._hosts else HostAddress(address=host)
                for host in hosts]  # fmt: skip

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run, on the slices that there are now."""
        self.inventory = self._with_addresses()
        fleet = super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)
        if not isinstance(fleet, TpuVmFleet):
            raise HarnessBug(f"{fleet!r} is no fleet on slices")
        fleet.use_slices(self._provider, self._provider.cloud.repair, clock)
        fleet.use_hosts(self._bring)
        return fleet

    def more(self, host: str) -> Sequence[str]:
        """Libraries of the accelerator, on hosts of slices."""
        if host not in self._hosts:
            return ()
        _, learner = self._hosts[host]
        return self._provider.cloud.slices[learner].libraries

    def _with_addresses(self) -> Inventory:
        """The inventory with the addresses of the hosts of all slices; AbilityError if it may not
        be used.
        """
        learners = dict(self._written.learners)
        for name in self._provider.nodes:
            try:
                hosts = self._provider.hosts(name)
            except ProviderError as error:
                raise AbilityError(f"the slices cannot be looked at: {error}") from error
            except FleetError as error:
                raise AbilityError(f"{error}; `chaoslab doctor slices up` brings it up") from error
            addresses = tuple(one.address for one in self._known(name, hosts))
            learners[name] = replace(learners[name], hosts=addresses, tpu=None)
        if why := self._provider.why_not():
            raise AbilityError(f"{why}: `chaoslab doctor slices down`, then `up` again")
        return replace(self._written, learners=learners)

    def _known(self, name: str, hosts: Sequence[ProvidedHost]) -> list[HostAddress]:
        found = [HostAddress(address=one.address, host_keys=one.host_keys) for one in hosts]
        self._hosts |= {one.address: (one, name) for one in found}
        return found

    async def _bring(self, name: str, hosts: Sequence[ProvidedHost]) -> list[HostAddress]:
        """Bring to new hosts what they lack: an address may be that of another machine now."""
        found = self._known(name, hosts)
        for one in found:
            self._ready.pop(one.address, None)
            reach, _ = await self.make_ready(one)
            await reach.close()
        return found
