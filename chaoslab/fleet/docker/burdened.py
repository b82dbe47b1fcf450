"""Burdens on containers: less CPU time or memory while they run, by the engine's own limits.

    Slowness ─► docker update: a part of the CPU time that the node used ─┐
            └─► the learner's own rest, by its hook                       ├─► node.burdened
    MemoryLimit ─► docker update: less memory than it needs ──────────────┘

What is upon a node is kept by injection. A burden changes one limit of one container, so two of the
same kind on one node are refused.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from chaoslab.clock import Clock
from chaoslab.errors import FleetError
from chaoslab.events import Json, Kind
from chaoslab.fleet.base import Sighting
from chaoslab.fleet.burdens import Burden, Mechanism, MemoryLimit, Slowness
from chaoslab.fleet.docker import verbs
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine import Limits

HARNESS = "harness"
_LOOK_S = 1.0
"""How often it is noted what every node has used."""
_LOOKS = 11
"""So many are kept: what a node uses is what it used in the last ten seconds."""
_LONG_ENOUGH_S = 1.5
_TIGHTEN_S = 0.1
_CUTS = (0.9, 0.97, 0.995)
_LEAST_BYTES = 16 << 20
"""Engines refuse less than a few megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    life: Container
    burden: Burden
    mechanism: str


@dataclass(slots=True, kw_only=True)
class Burdened:
    """All burdens of one fleet."""

    clock: Clock
    _standing: dict[tuple[str, str], _Standing] = field(default_factory=dict)
    _used: dict[str, deque[tuple[Container, float, float]]] = field(default_factory=dict)
    """By node: which life, when the engine told, and the CPU seconds it had used by then."""
    _calm: dict[str, float] = field(default_factory=dict)
    """By node: cores that it used while nothing was upon it."""
    _news: list[Sighting] = field(default_factory=list)
    _look_s: float = 0.0
    _tighten_s: float = 0.0

    def put(self, life: Container, injection: str, burden: Burden) -> None:
        """Begin a burden, or give it another strength. FleetError if the engine refuses."""
        name = life.spec.name
        for (node, whose), other in self._standing.items():
            is_other = node == name and whose != injection and other.life is life
            if is_other and other.burden.kind == burden.kind:
                raise FleetError(f"{name} bears a {burden.kind} already, of {whose}")
        mechanism = self._apply(life, burden)
        self._standing[name, injection] = _Standing(life=life, burden=burden, mechanism=mechanism)
        self._say(
            Kind.NODE_BURDENED, (name, injection), mechanism=mechanism, settings=asdict(burden)
        )

    def relieve(self, name: str, injection: str) -> None:
        """End it, if it stands."""
        standing = self._standing.get((name, injection))
        if standing is None:
            return
        life = standing.life
        if not life.has_exited:
            if isinstance(standing.burden, Slowness) and _is_by_hook(standing.burden):
                life.tell({"do": "slow"})
            else:
                life.limit(life.yard_limits)
                life.debts.settle(verbs.UNLIMIT)
        self._say(Kind.NODE_RELIEVED, (name, injection), because="")
        del self._standing[name, injection]
        self._used.pop(name, None)

    def count(self, name: str) -> None:
        """Report kills for want of memory, by the engine's word, under a limit of memory."""
        for key, standing in self._standing.items():
            if key[0] == name and isinstance(standing.burden, MemoryLimit):
                self._say(Kind.NODE_COUNTED, key, oom_kills=int(standing.life.was_out_of_memory))

    def news(self, lives: Iterable[Container]) -> list[Sighting]:
        """What is to be reported since the last call; now and then looks at what everybody uses."""
        now_s = self.clock.now_s()
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            for life in lives:
                self._note_use(life)
        if now_s >= self._tighten_s:
            self._tighten_s = now_s + _TIGHTEN_S
            self._tighten()
        news, self._news = self._news, []
        return news

    # ---------------------------------------------------------------- inside

    def _apply(self, life: Container, burden: Burden) -> str:
        match burden:
            case Slowness() if _is_by_hook(burden):
                facts: dict[str, Json] = {"do": "slow", "factor": burden.factor}
                life.tell(facts if burden.for_s is None else {**facts, "for_s": burden.for_s})
                return "the learner's step hook"
            case Slowness(mechanism=Mechanism.AUTO | Mechanism.CGROUP):
                cores = self._calm.get(life.spec.name, 0.0)
                if cores <= 0:
                    raise FleetError(f"{life.spec.name} used no CPU time that could be cut")
                self._limit(life, replace(life.limits, cpus=cores / burden.factor))
                return f"CPU quota of its container, {cores / burden.factor:.2f} cores"
            case MemoryLimit():
                limit_bytes = self._starve(life, burden.limit_bytes)
                return f"memory limit of its container, {limit_bytes} bytes"
            case _:
                raise FleetError(f"the docker fleet cannot put a {burden.kind} upon a node")

    def _starve(self, life: Container, most_bytes: int) -> int:
        """Less than it uses, as far as the kernel allows; the limit that holds.

        cgroup v1 refuses a limit below what it cannot reclaim at once: then the least that it takes
        holds, and is tried again (`news`) until an allocation meets it.
        """
        usage = life.usage
        used_bytes = usage.memory_bytes if usage is not None else 0
        limit_bytes = max(_LEAST_BYTES, min(most_bytes, used_bytes * 4 // 5 or most_bytes))
        while True:
            try:
                self._limit(life, replace(life.limits, memory_bytes=limit_bytes))
            except FleetError:
                if limit_bytes >= life.yard_limits.memory_bytes or life.has_exited:
                    raise
                limit_bytes = min(limit_bytes * 51 // 50, life.yard_limits.memory_bytes)
            else:
                return limit_bytes

    def _tighten(self) -> None:
        """Once more less memory for whoever still lives under a limit of it: as much as can be."""
        for standing in self._standing.values():
            life = standing.life
            if not isinstance(standing.burden, MemoryLimit) or life.has_exited:
                continue
            for share in _CUTS:
                lower = max(_LEAST_BYTES, int(life.limits.memory_bytes * share))
                with suppress(FleetError):  # it holds as it is, or the node is gone
                    life.limit(replace(life.limits, memory_bytes=lower))
                    break

    def _limit(self, life: Container, limits: Limits) -> None:
        before: Mapping[str, Json] = asdict(life.yard_limits)
        life.owe(verbs.UNLIMIT, **before)
        life.limit(limits)

    def _note_use(self, life: Container) -> None:
        name = life.spec.name
        if any(node == name for node, _ in self._standing) or life.is_over or life.is_ending:
            self._used.pop(name, None)
            return
        usage = life.usage
        if usage is None:
            return
        kept = self._used.setdefault(name, deque(maxlen=_LOOKS))
        if kept and (kept[-1][0] is not life or usage.cpu_s < kept[-1][2]):
            kept.clear()  # another life
        if not kept or usage.at_s > kept[-1][1]:
            kept.append((life, usage.at_s, usage.cpu_s))
        took_s = kept[-1][1] - kept[0][1]
        if took_s >= _LONG_ENOUGH_S:
            self._calm[name] = (kept[-1][2] - kept[0][2]) / took_s

    def _say(self, kind: Kind, key: tuple[str, str], /, **facts: Json) -> None:
        standing = self._standing[key]
        who: dict[str, Json] = {
            "node": key[0],
            "incarnation": standing.life.incarnation,
            "injection": key[1],
            "burden": standing.burden.kind,
        }
        self._news.append(Sighting(source=HARNESS, kind=kind, data={**who, **facts}))


def _is_by_hook(burden: Slowness) -> bool:
    return burden.mechanism is Mechanism.HOOK
