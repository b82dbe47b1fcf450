"""Mechanisms that put a stressor on a container: the engine's own limits, changed while it runs.

    Slowness ─► Quota: docker update, a part of the CPU time that the node used before
             └► StepRest: the learner's own rests, by its hook
    MemoryLimit ─► Starved: docker update, less memory than it needs
    Neighbours, OccupiedMemory ─► `neighbours`: a container beside it

A container has one quota and one limit of memory, so two stressors of one kind on one node are
refused.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.neighbours import Beside
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stress.slowing import CpuShare, StepRest
from chaoslab.fleet.stressors import (
    Mechanism,
    MemoryLimit,
    Neighbours,
    OccupiedMemory,
    Slowness,
)

_TIGHTEN_S = 0.1
_CUTS = (0.9, 0.97, 0.995, 0.999)
_LEAST_BYTES = 16 << 20
"""Engines refuse less than a few megabytes."""


def driver(wish: Wish[Container]) -> StressDriver:
    """Mechanism for a stressor on a container. FleetError if there is none."""
    found: Quota | Starved
    match wish.stressor:
        case Slowness(mechanism=Mechanism.HOOK) as slowness:
            return StepRest(wish.life, slowness)
        case Slowness(mechanism=Mechanism.AUTO | Mechanism.CGROUP) as slowness:
            found = Quota(wish, slowness)
        case MemoryLimit() as limit:
            found = Starved(wish, limit)
        case Neighbours() | OccupiedMemory() as crowd:
            return Beside(wish, crowd)
        case other:
            raise FleetError(f"the docker fleet cannot put a {other.kind} upon a node")
    for one in wish.others:
        if isinstance(one, type(found)) and one.life is wish.life:
            subject = f"{wish.life.spec.name} bears a {wish.stressor.kind} already"
            raise FleetError(f"{subject}, of {one.injection}")
    return found


class _Limited(StressDriver):
    """A limit of the engine's, whose undo is written down before it changes."""

    def __init__(self, wish: Wish[Container]) -> None:
        self.life, self.injection = wish.life, wish.injection
        self._whole = wish.life.run_context.setup.limits
        """Limits while nothing is upon it."""

    def _open_undo(self) -> None:
        self.life.open_undo(labels.UNLIMIT, self.injection, **asdict(self._whole))

    def _close_undo(self) -> None:
        self.life.pending_undos.close(labels.UNLIMIT, self.injection)


class Quota(CpuShare, _Limited):
    """A quota of the engine's. FleetError while what the node uses is not known."""

    def __init__(self, wish: Wish[Container], stressor: Slowness) -> None:
        CpuShare.__init__(self, wish.life.spec.name, wish.calm_cores, stressor)
        _Limited.__init__(self, wish)

    @property
    def mechanism(self) -> str:
        return f"CPU quota of its container, {self._cores:.2f} cores"

    def begin(self) -> None:
        self._open_undo()
        self._apply()

    def end(self) -> None:
        if not self.life.has_exited:
            self.life.limit(replace(self.life.limits, cpus=self._whole.cpus))
            self._close_undo()

    def _apply(self) -> None:
        self.life.limit(replace(self.life.limits, cpus=min(self._whole.cpus, self._cores)))


class Starved(_Limited):
    """Less memory than it uses, as far as the kernel allows.

    cgroup v1 refuses a limit below what it cannot reclaim at once: then the least that it takes
    holds, and is tried again until an allocation meets it.
    """

    def __init__(self, wish: Wish[Container], stressor: MemoryLimit) -> None:
        super().__init__(wish)
        self._stressor, self._clock, self._tighten_s = stressor, wish.life.place.clock, 0.0

    @property
    def mechanism(self) -> str:
        return f"memory limit of its container, {self.life.limits.memory_bytes} bytes"

    def begin(self) -> None:
        """Try less than it uses, then a little more until the kernel accepts it."""
        life, usage = self.life, self.life.usage
        used_bytes = usage.memory_bytes if usage is not None else 0
        most_bytes = self._stressor.limit_bytes
        limit_bytes = max(_LEAST_BYTES, min(most_bytes, used_bytes * 4 // 5 or most_bytes))
        self._open_undo()
        while True:
            try:
                life.limit(replace(life.limits, memory_bytes=limit_bytes))
            except FleetError:
                if limit_bytes >= self._whole.memory_bytes or life.has_exited:
                    raise
                limit_bytes = min(limit_bytes * 51 // 50, self._whole.memory_bytes)
            else:
                return

    def tend(self) -> None:
        """Lower the limit a little, while the node runs."""
        if self._clock.now_s() < self._tighten_s or self.life.has_exited:
            return
        self._tighten_s = self._clock.now_s() + _TIGHTEN_S
        for share_of_it in _CUTS:
            lower = max(_LEAST_BYTES, int(self.life.limits.memory_bytes * share_of_it))
            with suppress(FleetError):  # it holds as it is, or the node is gone
                self.life.limit(replace(self.life.limits, memory_bytes=lower))
                return

    def counts(self) -> Mapping[str, Json]:
        """Whether it was killed out of memory, by the engine's word."""
        return {"oom_kills": int(self.life.was_out_of_memory)}

    def end(self) -> None:
        if not self.life.has_exited:
            self.life.limit(replace(self.life.limits, memory_bytes=self._whole.memory_bytes))
            self._close_undo()
