"""Registry of the stress on the nodes of a fleet, by node and injection.

    Fleet.stress ──► put ──► a StressDriver begins ─► node.stressed
    Fleet.probe ───► count ──► what it measures ────► node.counted
    Fleet.relieve ─► relieve ──► it ends ───────────► node.relieved
    learner.step ──► hear ──► a slowness that is too strong or too weak is corrected

It also measures how much CPU time each node used lately, because a slowness grants a share of that,
and how long its steps took, because a slowness promises a multiple of that. Each fleet brings its
own drivers.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation, Payload
from chaoslab.core.payloads import (
    LearnerStep,
    NodeCounted,
    NodeRelieved,
    NodeStressed,
    StressCounts,
    StressedFields,
)
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.chores import Chores, taken_out
from chaoslab.fleet.stressors import Slowness, Stressor

HARNESS = "harness"
_LOOK_S = 1.0
"""Seconds between two measurements of the CPU time of every node."""
_LOOKED_S, _LOOKS = 10.0, 2
"""Time for which measurements are kept, and their least number: a fleet may measure more seldom."""
_STEPS = 40
"""Reports of a node's steps that are kept: of about ten seconds."""
_SETTLING, _TELLING, _TELLING_S = 1, 3, 1.5
"""After a change: reports left out, because they mix both strengths; least number and least time of
the further ones for a correction."""
_HASTE, _AT_MOST = 0.7, 1.4
"""Exponent and limit of one correction. Steps differ by themselves, and a quota a little too small
slows far more than one that is a little too large speeds up.
"""
_LONG_ENOUGH_S = 1.5
"""Least time of a measurement of CPU use; with less, that from before the last stress is used."""


class StressDriver(ABC):
    """Stress on a node by one mechanism."""

    tick_s: ClassVar[float] = _LOOK_S
    """Interval of the ticks."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """Name of the mechanism, as the record shows it."""

    @property
    def is_broken(self) -> bool:
        """Whether it ended by itself."""
        return False

    @abstractmethod
    def begin(self) -> None:
        """Apply it. FleetError if that fails; then `end` undoes what was applied."""

    def set(self, slowness: Slowness) -> None:  # noqa: B027 - what has one strength does nothing
        """Another strength of a slowness."""

    def steer(self, correction: float) -> None:  # noqa: B027 - as above
        """Multiply the CPU time by this, because the node's steps show another factor."""

    def tick(self) -> None:  # noqa: B027 - most stand by themselves
        """Called every `tick_s`, on any thread, while no verb is carried out for the node."""

    def counts(self) -> StressCounts:
        """Measurements of its own."""
        return {}

    @property
    def promised_bytes(self) -> int:
        """Memory that it is still to take."""
        return 0

    @abstractmethod
    def end(self) -> None:
        """Remove it from the node, as far as it was applied. May be repeated."""


class Living(Protocol):
    """An incarnation of a node that can be stressed."""

    spec: NodeSpec
    incarnation: int
    is_over: bool

    def cpu_used(self) -> tuple[float, float] | None:
        """Time of the measurement, and CPU seconds used until then; None if not yet known."""
        ...


LifeT = TypeVar("LifeT", bound=Living)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(Generic[LifeT]):
    """A stressor that is to be applied to an incarnation."""

    life: LifeT
    injection: str
    stressor: Stressor
    calm_cores: float
    """CPU seconds per second that the node used without stress; 0: unknown."""
    others: Sequence[StressDriver]
    """All drivers of the fleet that are applied now."""

    @property
    def promised_bytes(self) -> int:
        """Memory that the others are still to take: a check of what is taken now would let several
        that begin at once take all there is.
        """
        return sum(one.promised_bytes for one in self.others)


def no_driver(wish: Wish[LifeT]) -> StressDriver:
    """Driver of a fleet that can put no stress on its nodes: FleetError."""
    raise FleetError(f"{wish.stressor} cannot be put on {wish.life.spec.name} in this fleet")


@dataclass(slots=True, kw_only=True)
class _ActiveStress(Generic[LifeT]):
    """Stress that is applied to a node."""

    life: LifeT
    driver: StressDriver
    kind: str
    factor: float
    """Requested factor of a slowness; 1 for everything else."""
    own_s: float | None
    """Median step time that the node reported before."""
    heard: list[tuple[int, float]] = field(default_factory=list)
    """Reported steps since the last change: their number, and the time of each."""
    is_broken: bool = False
    tick_due_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class StressRegistry(Generic[LifeT]):
    """All stress of one fleet."""

    clock: Clock
    driver: Callable[[Wish[LifeT]], StressDriver]
    """Makes the driver of a stressor; FleetError if there is none."""
    _active: dict[tuple[str, str], _ActiveStress[LifeT]] = field(default_factory=dict)
    _used: dict[str, deque[tuple[LifeT, float, float]]] = field(default_factory=dict)
    """Incarnation, time, and CPU seconds used by then, without stress, by node."""
    _calm: dict[str, float] = field(default_factory=dict)
    """Last known CPU seconds per second without stress, by node."""
    _steps_s: dict[str, deque[float]] = field(default_factory=dict)
    """Latest step times that a node reported without stress, by node."""
    _observations: list[Observation] = field(default_factory=list)
    _look_s: float = 0.0

    def put(self, life: LifeT, injection: str, stressor: Stressor) -> None:
        """Apply a stressor, or change its strength. FleetError if that fails."""
        key = (life.spec.name, injection)
        stress = self._active.get(key)
        if stress is not None and stress.kind == stressor.kind:
            if isinstance(stressor, Slowness):
                stress.driver.set(stressor)
            stress.factor = _factor(stressor)
            stress.heard.clear()
        else:
            stress = self._stand(life, injection, stressor)
            self._active[key] = stress
            try:
                stress.driver.begin()
            except FleetError:  # undo what was applied, and forget it
                stress.driver.end()
                del self._active[key]
                raise
        how, settings = stress.driver.mechanism, asdict(stressor)
        self._say(NodeStressed(**_about(key, stress), mechanism=how, settings=settings))

    def relieve(self, name: str, injection: str) -> None:
        """End it, if it is applied. FleetError says what could not be ended."""
        key = (name, injection)
        stress = self._active.get(key)
        if stress is not None:
            stress.driver.end()
            del self._active[key]
            self._used.pop(name, None)  # another time begins
            self._say(NodeRelieved(**_about(key, stress), because=""))

    def relieve_all(self) -> list[str]:
        """End all stress; messages of what could not be ended."""
        failed = []
        for name, injection in tuple(self._active):
            try:
                self.relieve(name, injection)
            except FleetError as error:
                failed.append(str(error))
        return failed

    def count(self, name: str) -> None:
        """Report what the drivers of a node have measured."""
        for key, stress in tuple(self._active.items()):
            is_there = key[0] == name and not stress.driver.is_broken
            if is_there and (counts := stress.driver.counts()):
                self._say(NodeCounted(**_about(key, stress), **counts))

    def hear(self, observations: Iterable[Observation]) -> None:
        """Take note of the step times that nodes report."""
        for one in observations:
            said = one.payload if one.kind is Kind.LEARNER_STEP else None
            if isinstance(said, LearnerStep) and 0 < said.step_s < math.inf:
                active = tuple(self._active.items())
                bears = [it for (name, _), it in active if name == one.source]
                for stress in bears:
                    stress.heard.append((said.steps, said.step_s))
                if not bears:
                    kept = self._steps_s.setdefault(one.source, deque(maxlen=_STEPS))
                    kept.append(said.step_s)

    def observations(
        self, lives: Iterable[LifeT], chores: Chores | None = None
    ) -> list[Observation]:
        """Observations since the last call; measures all nodes once a second. Chores steer those
        that are stressed, in place if there are none.
        """
        chores, now_s = chores or Chores(), self.clock.now_s()
        for key, stress in tuple(self._active.items()):
            if now_s >= stress.tick_due_s:
                chores.begin(key[:1], partial(self._tend, key, stress))
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for life in lives:
                self._note_use(life)
        return taken_out(self._observations)

    def _tend(self, key: tuple[str, str], stress: _ActiveStress[LifeT]) -> None:
        """Unless it was relieved meanwhile."""
        stress.tick_due_s = self.clock.now_s() + stress.driver.tick_s
        if self._active.get(key) is not stress:
            return
        stress.driver.tick()
        _steer(stress)
        if stress.driver.is_broken and not stress.is_broken:
            stress.is_broken = True
            because = "the stressor ended by itself"
            self._say(NodeRelieved(**_about(key, stress), because=because))

    def _stand(self, life: LifeT, injection: str, stressor: Stressor) -> _ActiveStress[LifeT]:
        wish = Wish(
            life=life,
            injection=injection,
            stressor=stressor,
            calm_cores=self._cores(life),
            others=tuple(one.driver for one in tuple(self._active.values())),
        )
        calm_s = self._steps_s.get(life.spec.name)
        return _ActiveStress(
            life=life,
            driver=self.driver(wish),
            kind=stressor.kind,
            factor=_factor(stressor),
            own_s=median(calm_s) if calm_s else None,
        )

    # ---------------------------------------------------------------- what nodes use

    def _note_use(self, life: LifeT) -> None:
        name = life.spec.name
        if life.is_over or any(node == name for node, _ in tuple(self._active)):
            return  # it is stressed
        seen = life.cpu_used()
        if seen is None:
            return
        at_s, used_s = seen
        kept = self._used.setdefault(name, deque())
        if kept and (kept[-1][0] is not life or used_s < kept[-1][2]):
            kept.clear()  # another incarnation
        if not kept or at_s > kept[-1][1]:
            kept.append((life, at_s, used_s))
        while len(kept) > _LOOKS and kept[1][1] <= at_s - _LOOKED_S:
            kept.popleft()

    def _cores(self, life: LifeT) -> float:
        """CPU seconds per second over the last measurements; 0 if unknown."""
        name = life.spec.name
        self._note_use(life)
        kept = tuple(self._used.get(name, ()))
        if kept and kept[-1][1] - kept[0][1] >= _LONG_ENOUGH_S:
            (_, from_s, before_s), *_, (_, to_s, after_s) = kept
            self._calm[name] = (after_s - before_s) / (to_s - from_s)
        return self._calm.get(name, 0.0)

    def _say(self, said: Payload) -> None:
        self._observations.append(Observation.of(HARNESS, said))


def _about(key: tuple[str, str], stress: _ActiveStress[Any]) -> StressedFields:
    return {
        "node": key[0],
        "incarnation": stress.life.incarnation,
        "injection": key[1],
        "stressor": stress.kind,
    }


def _factor(stressor: Stressor) -> float:
    return stressor.factor if isinstance(stressor, Slowness) else 1.0


def _steer(stress: _ActiveStress[LifeT]) -> None:
    """Correct a slowness towards the requested factor, by the node's own step times."""
    heard = stress.heard[_SETTLING:]
    took_s = sum(steps * step_s for steps, step_s in heard)
    is_known = stress.own_s is not None and len(heard) >= _TELLING and took_s >= _TELLING_S
    if stress.factor > 1 and stress.own_s and is_known and not stress.driver.is_broken:
        mean_s = took_s / sum(steps for steps, _ in heard)
        correction = (mean_s / (stress.own_s * stress.factor)) ** _HASTE
        stress.driver.steer(max(1 / _AT_MOST, min(_AT_MOST, correction)))
        stress.heard.clear()
