"""Fleet whose learners are on slices of Cloud TPU, which are broken, and replaced during a run.

    poll ─► SliceManager.turn ─► observations of provider and repairs ─┐
         └► RemoteFleet.poll ─► of nodes ─► SliceManager.hear ─────────┴─► run
    SliceManager ─ make_ready ───► code and libraries on the new hosts      on its threads
                 ├ take_in_hosts ► their undo entries, and what starts their agents
                 └ begin ────────► rehost: the node's place is there now ─► restart

Nodes without a slice by the inventory, such as the syncer, are the remote fleet's alone.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

from chaoslab.core.clock import Clock
from chaoslab.core.errors import AbilityError, FleetError, HarnessBug
from chaoslab.core.events import Observation
from chaoslab.fleet.base import Fleet, Node
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import HasSlices, SliceAct
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.factory import HostFleets
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.inventory import Inventory
from chaoslab.fleet.remote.protocol.reach import HostAddress
from chaoslab.fleet.settings import FleetRequest
from chaoslab.fleet.tpu.manager import LOOK_S, SliceManager
from chaoslab.fleet.tpu.provider import TpuProvider
from chaoslab.fleet.tpu.repair import Cause
from chaoslab.fleet.tpu.states import TAKEN, ProviderError
from chaoslab.undo.base import UndoLog

_READY_S: Final = 2400.0
"""Time limit of the delivery to a new host, libraries of an accelerator included."""
_TURN_S: Final = 0.2
"""Interval of the manager's turns while the fleet is read."""
Bring: TypeAlias = Callable[[str, Sequence[HostAddress]], Coroutine[Any, Any, None]]
"""Brings what the new hosts of a node lack."""


class TpuVmFleet(RemoteFleet, HasSlices):
    """A remote fleet whose learners are on slices."""

    look_s = LOOK_S
    _bring: Bring
    _slices: SliceManager

    def use_slices(self, provider: TpuProvider, bring: Bring) -> None:
        """Set whose slices they are; called once, before the fleet is entered."""
        self._bring = bring
        self._slices = SliceManager(provider, self, look_s=self.look_s)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Slices stay: `chaoslab doctor slices down` deletes them."""
        self._slices.close()
        super().__exit__(kind, error, trace)

    def restart(self, name: str) -> Node:
        """Start a node; one whose slice is not up once that has been repaired: until then dead."""
        condition = self._slices.condition(name)
        if condition is None:
            return super().restart(name)
        node = self.nodes[name]
        if not node.is_alive and not self._slices.require(name, self._clock.now_s()):
            if not node.incarnation:
                raise FleetError(
                    f"the slice of {name} is {condition.value}: run `chaoslab doctor slices up` "
                    "first"
                )
            return node
        begun = super().restart(name)
        self._slices.note_begun(name, begun.incarnation)
        return begun

    def poll(self, until_s: float) -> Sequence[Observation]:
        while True:
            now_s = self._clock.now_s()
            said = self._slices.turn(now_s)
            seen = super().poll(now_s if said else min(until_s, now_s + _TURN_S))
            self._slices.hear(seen, self._clock.now_s())
            if said or seen or now_s >= until_s:
                return [*said, *seen]

    # ---------------------------------------------------------------- slices

    def act_on_slices(self, act: SliceAct, *names: str) -> None:
        self._slices.do(act, *names)

    def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
        """As promised; a node that has ended although its slice was left alone is started again."""
        cause = Cause.PREEMPTION if is_preempted else Cause.FAULT
        if not self._slices.repair(name, cause, self._clock.now_s()):
            self.restart(name)

    def is_gone_for_good(self, host: str) -> bool:
        """As the provider says of the slices of its nodes."""
        owners = (name for name in self.nodes if host in self.hosts_of(name))
        return any(self._slices.condition(name) in TAKEN for name in owners)

    # ---------------------------------------------------------------- see `manager.Hosts`

    def make_ready(self, name: str, hosts: Sequence[HostAddress]) -> None:
        self.ground.loop.run(self._bring(name, hosts), within_s=_READY_S)

    def take_in_hosts(self, name: str, hosts: Sequence[HostAddress]) -> Callable[[], None]:
        """A node that lives keeps its own."""
        return self.take_in(() if self.nodes[name].is_alive else hosts)

    def begin(self, name: str, hosts: Sequence[HostAddress]) -> int:
        """A node that lives stays where it is, if that is one of these hosts; else FleetError,
        until it is known to be lost. It waits for the verbs of the node.
        """
        with self._chores.alone([name]):
            if not self.nodes[name].is_alive:
                self.rehost(name, hosts)
            elif self.hosts_of(name)[0] != hosts[0].address:
                self.lose(name, "its slice was replaced")
                raise FleetError(f"{name} is still being lost with its former slice")
            node = super().restart(name)
        if not node.is_alive:
            raise FleetError(f"{name} was started and is dead")
        return node.incarnation

    def lose(self, name: str, why: str) -> None:
        if name in self.nodes:
            self.lost(name, why)


class SliceFleets(HostFleets):
    """Factory of fleets on slices: asks the provider for hosts, and makes a fleet for each run.

        inventory ─► TpuProvider.hosts ─► inventory of addresses ─► HostFleets ─► TpuVmFleet

    Hosts of slices are asked for anew for each run: a repair may have replaced them since. Their
    host keys are those that the provider's API tells.
    """

    kind = "tpu-vm"
    fleet = TpuVmFleet

    def __init__(self, request: FleetRequest, terms: Terms, provider: TpuProvider) -> None:
        """AbilityError if a slice is not up."""
        self._provider = provider
        self._hosts: dict[str, tuple[HostAddress, str]] = {}
        """Hosts of slices by address, with their learner."""
        super().__init__(self._with_addresses(), request, terms)

    @property
    def addresses(self) -> Sequence[HostAddress]:
        """The hosts that there are now, those of slices with their keys."""
        return [
            self._hosts[one.address][0] if one.address in self._hosts else one
            for one in super().addresses
        ]

    def __call__(
        self, run_directory: Path, clock: Clock, *, undo_log: UndoLog, node_links: NodeLinks
    ) -> Fleet:
        """Make the fleet of one run, on the slices that there are now."""
        self.inventory = self._with_addresses()
        fleet = super().__call__(run_directory, clock, undo_log=undo_log, node_links=node_links)
        if not isinstance(fleet, TpuVmFleet):
            raise HarnessBug(f"{fleet!r} is no fleet on slices")
        fleet.use_slices(self._provider, self._bring)
        return fleet

    def more(self, host: str) -> Sequence[str]:
        """Libraries of the accelerator, on hosts of slices."""
        if host not in self._hosts:
            return ()
        _, learner = self._hosts[host]
        return self._provider.inventory.slices[learner].libraries

    def _with_addresses(self) -> Inventory:
        """The inventory with the addresses of the hosts of all slices; AbilityError if it may not
        be used.
        """
        inventory = self._provider.inventory
        learners = dict(inventory.learners)
        for name in self._provider.nodes:
            try:
                hosts = self._provider.hosts(name)
            except ProviderError as error:
                raise AbilityError(f"the slices cannot be looked at: {error}") from error
            except FleetError as error:
                raise AbilityError(f"{error}; `chaoslab doctor slices up` brings it up") from error
            self._hosts |= {one.address: (one, name) for one in hosts}
            addresses = tuple(one.address for one in hosts)
            learners[name] = replace(learners[name], hosts=addresses, tpu=None)
        if why := self._provider.why_not():
            raise AbilityError(f"{why}: `chaoslab doctor slices down`, then `up` again")
        return replace(inventory, learners=learners)

    async def _bring(self, name: str, hosts: Sequence[HostAddress]) -> None:
        """Bring to new hosts what they lack: an address may be that of another machine now."""
        for one in hosts:
            self._hosts[one.address] = (one, name)
            self._ready.pop(one.address, None)
            reach, _ = await self.make_ready(one)
            await reach.close()
