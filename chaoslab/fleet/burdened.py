"""The burdens that stand on the nodes of a local fleet, by node and injection.

    Fleet.burden ──► put ──► a Bearer begins ─────► node.burdened
    Fleet.probe ───► count ──► what it measures ──► node.counted
    Fleet.relieve ─► relieve ──► it ends ─────────► node.relieved
    learner.step ──► hear ──► a slowness that is too strong or too weak is steered

It also knows how much CPU time each node used lately, because that is what a slowness is a part of,
and how long its steps took, because that is what a slowness is about.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import median

from chaoslab.errors import FleetError
from chaoslab.events import Json, Kind
from chaoslab.fleet import cgroups
from chaoslab.fleet.base import Ability, Sighting
from chaoslab.fleet.bearing import Bearer, Bearing
from chaoslab.fleet.burdens import Burden, MemoryLimit, Slowness
from chaoslab.fleet.cgroups import Controller
from chaoslab.fleet.crowding import Beside, SharedLimit, promised_bytes
from chaoslab.fleet.life import Life, Place
from chaoslab.fleet.slowing import slower

HARNESS = "harness"
_LOOK_S = 1.0
"""How often it is noted what every node has used."""
_LOOKS = 11
"""So many are kept: what a node uses is what it used in the last ten seconds."""
_STEPS = 40
"""So many reports of its steps are kept; about ten seconds of them."""
_SETTLING, _TELLING = 1, 3
"""The first report after a change is of both strengths; a few after it tell."""
_HASTE = 0.7
"""Not all the way at once: steps differ by themselves."""
_LONG_ENOUGH_S = 1.5
"""Less tells nothing; then what it used before its last burden is believed."""


@dataclass(slots=True, kw_only=True)
class _Standing:
    """One burden that stands on a node."""

    life: Life
    bearer: Bearer
    kind: str
    factor: float
    """What is asked of a slowness; 1 of everything else."""
    own_s: float | None
    """Its step time before, as it reported it."""
    heard_s: list[float] = field(default_factory=list)
    """Its step times since this strength was set, or steered last."""
    is_broken: bool = False


@dataclass(slots=True, kw_only=True)
class Burdened:
    """All burdens of one fleet."""

    place: Place
    _standing: dict[tuple[str, str], _Standing] = field(default_factory=dict)
    _used: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    """By node: when, and how much CPU time it had used by then, in this life, while calm."""
    _calm: dict[str, float] = field(default_factory=dict)
    """By node: what it used per second, when it was last known."""
    _steps_s: dict[str, deque[float]] = field(default_factory=dict)
    """By node: its latest step times while it was calm, as it reported them."""
    _news: list[Sighting] = field(default_factory=list)
    _look_s: float = 0.0

    def put(self, life: Life, injection: str, burden: Burden) -> None:
        """Begin a burden, or give it another strength. FleetError if the world refuses."""
        key = (life.spec.name, injection)
        standing = self._standing.get(key)
        factor = burden.factor if isinstance(burden, Slowness) else 1.0
        if standing is not None and standing.kind == burden.kind:
            standing.bearer.set(burden)
            standing.factor = factor
            standing.heard_s.clear()
        else:
            bearing = Bearing(
                life=life,
                injection=injection,
                obligations=self.place.obligations,
                calm_cores=self._cores(life),
                promised_bytes=promised_bytes(one.bearer for one in self._standing.values()),
            )
            calm_s = self._steps_s.get(life.spec.name)
            standing = _Standing(
                life=life,
                bearer=_bearer(bearing, burden),
                kind=burden.kind,
                factor=factor,
                own_s=median(calm_s) if calm_s else None,
            )
            self._standing[key] = standing
            standing.bearer.begin()
        self._say(
            Kind.NODE_BURDENED, key, standing,
            mechanism=standing.bearer.mechanism, settings=asdict(burden),
        )  # fmt: skip

    def relieve(self, name: str, injection: str) -> None:
        """End it, if it stands. FleetError says what could not be ended."""
        key = (name, injection)
        standing = self._standing.get(key)
        if standing is not None:
            standing.bearer.end()
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
            is_there = key[0] == name and not standing.bearer.is_broken
            if is_there and (counts := standing.bearer.counts()):
                self._say(Kind.NODE_COUNTED, key, standing, **counts)

    def hear(self, sightings: Iterable[Sighting]) -> None:
        """What nodes reported: how long their steps take."""
        for one in sightings:
            step_s = one.data.get("step_s") if one.kind is Kind.LEARNER_STEP else None
            if isinstance(step_s, int | float) and step_s > 0:
                bears = [it for (name, _), it in self._standing.items() if name == one.source]
                for standing in bears:
                    standing.heard_s.append(float(step_s))
                if not bears:
                    kept = self._steps_s.setdefault(one.source, deque(maxlen=_STEPS))
                    kept.append(float(step_s))

    def news(self, lives: Iterable[Life]) -> list[Sighting]:
        """What is to be reported since the last call; looks at everybody once a second."""
        now_s = self.place.clock.now_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for life in lives:
                self._note_use(life, now_s)
            for key, standing in self._standing.items():
                _steer(standing)
                if standing.bearer.is_broken and not standing.is_broken:
                    standing.is_broken = True
                    self._say(Kind.NODE_RELIEVED, key, standing, because="it let go by itself")
        news, self._news = self._news, []
        return news

    # ---------------------------------------------------------------- what nodes use

    def _note_use(self, life: Life, now_s: float) -> None:
        name = life.spec.name
        if any(burdened == name for burdened, _ in self._standing):
            return  # not what it uses when it is calm
        used_s = life.cpu_s
        kept = self._used.setdefault(name, deque(maxlen=_LOOKS))
        if kept and used_s < kept[-1][1]:
            kept.clear()  # another life
        kept.append((now_s, used_s))

    def _cores(self, life: Life) -> float:
        """CPU seconds per second over the last looks; 0 when nothing is known."""
        name = life.spec.name
        self._note_use(life, self.place.clock.now_s())
        kept = tuple(self._used.get(name, ()))
        if kept and kept[-1][0] - kept[0][0] >= _LONG_ENOUGH_S:
            (from_s, before_s), *_, (to_s, after_s) = kept
            self._calm[name] = (after_s - before_s) / (to_s - from_s)
        return self._calm.get(name, 0.0)

    def _say(self, kind: Kind, key: tuple[str, str], standing: _Standing, /, **facts: Json) -> None:
        who: dict[str, Json] = {
            "node": key[0],
            "incarnation": standing.life.incarnation,
            "injection": key[1],
            "burden": standing.kind,
        }
        self._news.append(Sighting(source=HARNESS, kind=kind, data={**who, **facts}))


def _steer(standing: _Standing) -> None:
    """Towards the factor that was asked for, by what the node's own steps show of it."""
    heard_s = standing.heard_s[_SETTLING:]
    is_known = standing.own_s is not None and len(heard_s) >= _TELLING
    if standing.factor > 1 and standing.own_s and is_known and not standing.bearer.is_broken:
        off = median(heard_s) / (standing.own_s * standing.factor)
        standing.bearer.steer(off**_HASTE)
        standing.heard_s.clear()


def lacking() -> frozenset[Ability]:
    """What can not be done to a node on this machine, for want of cgroups."""
    by_cgroup = {Controller.CPU: Ability.QUOTA, Controller.MEMORY: Ability.MEMORY_LIMIT}
    missing = (needed for kind, needed in by_cgroup.items() if cgroups.where(kind) is None)
    return frozenset(missing)


def _bearer(bearing: Bearing, burden: Burden) -> Bearer:
    if isinstance(burden, Slowness):
        return slower(bearing, burden)
    if isinstance(burden, MemoryLimit):
        return SharedLimit(bearing, burden)
    return Beside(bearing, burden)
