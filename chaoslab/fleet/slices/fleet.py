"""Mixin of fleets whose nodes run on slices: verbs on slices, and repairs while the fleet is read.

    class TpuVmFleet(SlicedFleet, RemoteFleet): ...
         poll ─► SliceManager.turn ─► observations of provider and repairs ─┐
              └► RemoteFleet.poll ─► of nodes ─► SliceManager.hear ─────────┴─► run

The other base is a `NodeFleet`, or any fleet with its verbs, that also has `make_ready` and `lose`
of `manager.Hosts`. Nodes without a slice by the inventory, such as the syncer, are its alone.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, Self, cast

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.base import Node
from chaoslab.fleet.protocols import HasSlices
from chaoslab.fleet.provider import Provider
from chaoslab.fleet.slices.kept_slice import TAKEN
from chaoslab.fleet.slices.manager import Hosts, SliceManager
from chaoslab.fleet.slices.repair import Cause, RepairLimits

_LOOK_S: Final = 0.2
"""Interval of the questions to the manager's threads while the fleet is read."""


class _Below(Protocol):
    """The other base, as far as the mixin calls it."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> Any: ...
    def restart(self, name: str) -> Node: ...
    def poll(self, until_s: float) -> Sequence[Observation]: ...


class SlicedFleet(HasSlices):
    """Mixin that adds slices to the next fleet class among the bases."""

    look_every_s: float = 5.0
    """Interval of the questions to the provider."""
    _clock: Clock
    _provider: Provider
    _limits: RepairLimits
    _slice_manager: SliceManager | None = None

    def use_slices(
        self,
        provider: Provider,
        limits: RepairLimits,
        clock: Clock,
    ) -> None:
        """Set whose slices they are; called once, before the fleet is entered."""
        self._provider, self._limits, self._clock = provider, limits, clock

    # ---------------------------------------------------------------- what the manager asks

    def begin(self, name: str) -> int:
        """Start the next incarnation of a node on its new hosts; 0 if it is dead."""
        node = self._below.restart(name)
        return node.incarnation if node.is_alive else 0

    # ---------------------------------------------------------------- a fleet

    def __enter__(self) -> Self:
        manager = SliceManager(
            self._provider,
            self._limits,
            cast("Hosts", self),
            every_s=self.look_every_s,
        )
        try:
            self._below.__enter__()
        except BaseException:
            manager.close()
            raise
        self._slice_manager = manager
        return self

    def __exit__(self, *error: Any) -> None:
        """Slices stay: `chaoslab doctor slices down` deletes them."""
        try:
            if self._slice_manager is not None:
                self._slice_manager.close()
        finally:
            self._below.__exit__(*error)

    def restart(self, name: str) -> Node:
        """Start a node; one whose slice is not up once that has been repaired: until then dead."""
        manager = self._kept
        if name not in manager.nodes:
            return self._below.restart(name)
        node: Node = self.nodes[name]  # type: ignore[attr-defined]  # of the other base
        if not node.is_alive and not manager.require(name, self._clock.now_s()):
            if not node.incarnation:
                raise FleetError(
                    f"the slice of {name} is {manager.condition(name).value}: "
                    "run `chaoslab doctor slices up` first"
                )
            return node
        begun = self._below.restart(name)
        manager.note_begun(name, begun.incarnation)
        return begun

    def poll(self, until_s: float) -> Sequence[Observation]:
        manager = self._kept
        while True:
            now_s = self._clock.now_s()
            said = manager.turn(now_s)
            seen = self._below.poll(now_s if said else min(until_s, now_s + _LOOK_S))
            manager.hear(seen, self._clock.now_s())
            if said or seen or now_s >= until_s:
                return [*said, *seen]

    # ---------------------------------------------------------------- slices

    def delete_slice(self, *names: str) -> None:
        self._kept.act(self._provider.delete, *names)

    def take_slice(self, *names: str) -> None:
        self._kept.act(self._provider.take, *names)

    def stop_slice(self, *names: str) -> None:
        self._kept.act(self._provider.stop, *names)

    def maintain_slice(self, *names: str) -> None:
        self._kept.act(self._provider.maintain, *names)

    def repair_slice(self, name: str, *, is_preempted: bool = False) -> None:
        """As promised; a node that has ended although its slice was left alone is started again."""
        cause = Cause.PREEMPTION if is_preempted else Cause.FAULT
        if not self._kept.repair(name, cause, self._clock.now_s()):
            self.restart(name)

    def is_taken(self, name: str) -> bool:
        """Whether the provider has taken the slice of a node for good, by its last word."""
        manager = self._slice_manager
        return manager is not None and name in manager.nodes and manager.condition(name) in TAKEN

    # ---------------------------------------------------------------- inside

    @property
    def _kept(self) -> SliceManager:
        if self._slice_manager is None:
            raise FleetError("the fleet was not entered")
        return self._slice_manager

    @property
    def _below(self) -> _Below:
        """The other base."""
        return cast("_Below", super())
