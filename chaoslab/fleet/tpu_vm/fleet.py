"""Fleet of hosts, some from a provider, which are replaced during a run.

    SliceManager ─ make_ready (its thread) ──► code and libraries on the new hosts
                ├ take_in (the fleet's) ────► their undo entries
                ├ start_hosts (its thread) ─► their agents
                └ begin (the fleet's) ──────► rehost: the node's place is there now ─► restart

All else is `SlicedFleet` and `RemoteFleet`.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from chaoslab.core.errors import FleetError
from chaoslab.fleet.provider import ProvidedHost
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.slices.fleet import SlicedFleet

_READY_S: Final = 2400.0
"""For all that a new host lacks, libraries of an accelerator included."""
Bring: TypeAlias = Callable[[str, Sequence[ProvidedHost]], Coroutine[Any, Any, list[HostAddress]]]
"""Brings what the new hosts of a node lack; where they are."""


class TpuVmFleet(SlicedFleet, RemoteFleet):
    """A remote fleet whose learners are on slices."""

    _bring: Bring
    _ready: dict[str, list[HostAddress]]
    _agents: dict[str, Callable[[], None]]
    """By node: what starts the agents of its new hosts."""

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
