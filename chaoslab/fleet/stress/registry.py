"""The burdens that stand on the nodes of a fleet, by node and injection.

    Fleet.burden ──► put ──► a StressDriver begins ─────► node.burdened
    Fleet.probe ───► count ──► what it measures ──► node.counted
    Fleet.relieve ─► relieve ──► it ends ─────────► node.relieved
    learner.step ──► hear ──► a slowness that is too strong or too weak is steered

It also knows how much CPU time each node used lately, because that is what a slowness is a part of,
and how long its steps took, because that is what a slowness is about. It knows no kind of fleet:
each brings its own bearers.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Generic, Protocol, TypeVar

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.core.payloads import LearnerStep
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.stressors import Slowness, Stressor

HARNESS = "harness"
_LOOK_S = 1.0
"""How often it is noted what every node has used."""
_LOOKS = 11
"""So many are kept: what a node uses is what it used in the last ten seconds."""
_STEPS = 40
"""So many reports of its steps are kept; about ten seconds of them."""
_SETTLING, _TELLING, _TELLING_S = 1, 3, 1.5
"""The first report after a change is of both strengths; a few after it tell, of so long a time."""
_HASTE, _AT_MOST = 0.7, 1.4
"""Not all the way at once: steps differ by themselves, and a quota that is a little too small slows
far more than one that is a little too large speeds up.
"""
_LONG_ENOUGH_S = 1.5
"""Less tells nothing; then what it used before its last burden is believed."""


class StressDriver(ABC):
    """A burden on a node, by one mechanism."""

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """In words, for people."""

    @property
    def is_broken(self) -> bool:
        """Whether it has let go by itself."""
        return False

    @abstractmethod
    def begin(self) -> None:
        """Put it upon the node. FleetError if the world refuses; then `end` undoes the half."""

    def set(self, slowness: Slowness) -> None:  # noqa: B027 - what has one strength does nothing
        """Another strength of a slowness."""

    def steer(self, correction: float) -> None:  # noqa: B027 - as above
        """More CPU time by this, or less, because what it does is not what was asked for."""

    def tend(self) -> None:  # noqa: B027 - most stand by themselves
        """Called many times a second, for whatever it has to see to."""

    def counts(self) -> Mapping[str, Json]:
        """What it measures itself; each key ends in its unit."""
        return {}

    @property
    def promised_bytes(self) -> int:
        """Memory that it is still to take."""
        return 0

    @abstractmethod
    def end(self) -> None:
        """Take it from the node, however much of it there is; may be done twice."""


class Living(Protocol):
    """A life of a node that can bear burdens."""

    spec: NodeSpec
    incarnation: int
    is_over: bool

    def cpu_used(self) -> tuple[float, float] | None:
        """When that was seen, and the CPU seconds it had used by then; None if nobody knows yet."""
        ...


LifeT = TypeVar("LifeT", bound=Living)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(Generic[LifeT]):
    """A burden that is to stand on a life of a node."""

    life: LifeT
    injection: str
    stressor: Stressor
    calm_cores: float
    """CPU seconds per second that the node used while nothing was upon it; 0: nobody knows."""
    others: Sequence[StressDriver]
    """All that stand on any node of the fleet."""

    @property
    def promised_bytes(self) -> int:
        """Memory that the others are still to take: a check of what is taken now would let several
        that begin at once take all there is.
        """
        return sum(one.promised_bytes for one in self.others)


@dataclass(slots=True, kw_only=True)
class _Standing(Generic[LifeT]):
    """One burden that stands on a node."""

    life: LifeT
    driver: StressDriver
    kind: str
    factor: float
    """What is asked of a slowness; 1 of everything else."""
    own_s: float | None
    """Its step time before, as it reported it."""
    heard: list[tuple[int, float]] = field(default_factory=list)
    """Its steps since this strength was set, or steered last: how many, and the time of each."""
    is_broken: bool = False


@dataclass(slots=True, kw_only=True)
class StressRegistry(Generic[LifeT]):
    """All burdens of one fleet."""

    clock: Clock
    driver: Callable[[Wish[LifeT]], StressDriver]
    """What carries a burden; FleetError if nothing can."""
    _standing: dict[tuple[str, str], _Standing[LifeT]] = field(default_factory=dict)
    _used: dict[str, deque[tuple[LifeT, float, float]]] = field(default_factory=dict)
    """By node: which life, when, and how much CPU time it had used by then, while calm."""
    _calm: dict[str, float] = field(default_factory=dict)
    """By node: what it used per second, when it was last known."""
    _steps_s: dict[str, deque[float]] = field(default_factory=dict)
    """By node: its latest step times while it was calm, as it reported them."""
    _recorder: list[Observation] = field(default_factory=list)
    _look_s: float = 0.0

    def put(self, life: LifeT, injection: str, stressor: Stressor) -> None:
        """Begin a burden, or give it another strength. FleetError if the world refuses."""
        key = (life.spec.name, injection)
        standing = self._standing.get(key)
        if standing is not None and standing.kind == stressor.kind:
            if isinstance(stressor, Slowness):
                standing.driver.set(stressor)
            standing.factor = _factor(stressor)
            standing.heard.clear()
        else:
            standing = self._stand(life, injection, stressor)
            self._standing[key] = standing
            try:
                standing.driver.begin()
            except FleetError:  # what stood half is taken away, and what never stood is forgotten
                standing.driver.end()
                del self._standing[key]
                raise
        self._say(
            Kind.NODE_STRESSED, key, standing,
            mechanism=standing.driver.mechanism, settings=asdict(stressor),
        )  # fmt: skip

    def relieve(self, name: str, injection: str) -> None:
        """End it, if it stands. FleetError says what could not be ended."""
        key = (name, injection)
        standing = self._standing.get(key)
        if standing is not None:
            standing.driver.end()
            del self._standing[key]
            self._used.pop(name, None)  # another time begins
            self._say(Kind.NODE_RELIEVED, key, standing, because="")

    def relieve_all(self) -> list[str]:
        """End all that stand; what could not be ended, in words."""
        failed = []
        for name, injection in tuple(self._standing):
            try:
                self.relieve(name, injection)
            except FleetError as error:
                failed.append(str(error))
        return failed

    def count(self, name: str) -> None:
        """Report what the burdens of a node have measured."""
        for key, standing in self._standing.items():
            is_there = key[0] == name and not standing.driver.is_broken
            if is_there and (counts := standing.driver.counts()):
                self._say(Kind.NODE_COUNTED, key, standing, **counts)

    def hear(self, observations: Iterable[Observation]) -> None:
        """What nodes reported: how long their steps take."""
        for one in observations:
            said = one.event.payload if one.kind is Kind.LEARNER_STEP else None
            if isinstance(said, LearnerStep) and 0 < said.step_s < math.inf:
                bears = [it for (name, _), it in self._standing.items() if name == one.source]
                for standing in bears:
                    standing.heard.append((said.steps, said.step_s))
                if not bears:
                    kept = self._steps_s.setdefault(one.source, deque(maxlen=_STEPS))
                    kept.append(said.step_s)

    def recorder(self, lives: Iterable[LifeT]) -> list[Observation]:
        """What is to be reported since the last call; looks at everybody once a second."""
        for standing in self._standing.values():
            standing.driver.tend()
        now_s = self.clock.now_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for life in lives:
                self._note_use(life)
            for key, standing in self._standing.items():
                _steer(standing)
                if standing.driver.is_broken and not standing.is_broken:
                    standing.is_broken = True
                    self._say(Kind.NODE_RELIEVED, key, standing, because="it let go by itself")
        recorder, self._recorder = self._recorder, []
        return recorder

    def _stand(self, life: LifeT, injection: str, stressor: Stressor) -> _Standing[LifeT]:
        wish = Wish(
            life=life,
            injection=injection,
            stressor=stressor,
            calm_cores=self._cores(life),
            others=tuple(one.driver for one in self._standing.values()),
        )
        calm_s = self._steps_s.get(life.spec.name)
        return _Standing(
            life=life,
            driver=self.driver(wish),
            kind=stressor.kind,
            factor=_factor(stressor),
            own_s=median(calm_s) if calm_s else None,
        )

    # ---------------------------------------------------------------- what nodes use

    def _note_use(self, life: LifeT) -> None:
        name = life.spec.name
        if life.is_over or any(stress_registry == name for stress_registry, _ in self._standing):
            return  # not what it uses when it is calm
        seen = life.cpu_used()
        if seen is None:
            return
        at_s, used_s = seen
        kept = self._used.setdefault(name, deque(maxlen=_LOOKS))
        if kept and (kept[-1][0] is not life or used_s < kept[-1][2]):
            kept.clear()  # another life
        if not kept or at_s > kept[-1][1]:
            kept.append((life, at_s, used_s))

    def _cores(self, life: LifeT) -> float:
        """CPU seconds per second over the last looks; 0 when nothing is known."""
        name = life.spec.name
        self._note_use(life)
        kept = tuple(self._used.get(name, ()))
        if kept and kept[-1][1] - kept[0][1] >= _LONG_ENOUGH_S:
            (_, from_s, before_s), *_, (_, to_s, after_s) = kept
            self._calm[name] = (after_s - before_s) / (to_s - from_s)
        return self._calm.get(name, 0.0)

    def _say(
        self, kind: Kind, key: tuple[str, str], standing: _Standing[LifeT], /, **facts: Json
    ) -> None:
        who: dict[str, Json] = {
            "node": key[0],
            "incarnation": standing.life.incarnation,
            "injection": key[1],
            "burden": standing.kind,
        }
        self._recorder.append(Observation(source=HARNESS, kind=kind, data={**who, **facts}))


def _factor(stressor: Stressor) -> float:
    return stressor.factor if isinstance(stressor, Slowness) else 1.0


def _steer(standing: _Standing[LifeT]) -> None:
    """Towards the factor that was asked for, by what the node's own steps show of it."""
    heard = standing.heard[_SETTLING:]
    took_s = sum(steps * step_s for steps, step_s in heard)
    is_known = standing.own_s is not None and len(heard) >= _TELLING and took_s >= _TELLING_S
    if standing.factor > 1 and standing.own_s and is_known and not standing.driver.is_broken:
        mean_s = took_s / sum(steps for steps, _ in heard)
        correction = (mean_s / (standing.own_s * standing.factor)) ** _HASTE
        standing.driver.steer(max(1 / _AT_MOST, min(_AT_MOST, correction)))
        standing.heard.clear()
