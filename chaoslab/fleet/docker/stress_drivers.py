"""What carries each burden on a container: the engine's own limits, changed while it runs.

    Slowness ─► Quota: docker update, a part of the CPU time that the node used before
             └► StepRest: the learner's own rests, by its hook
    MemoryLimit ─► Starved: docker update, less memory than it needs
    Neighbours, HeldMemory ─► `neighbours`: a container beside it

A container has one quota and one limit of memory, so two burdens of one kind on one node are
refused.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.docker.container import Container
from chaoslab.fleet.docker.engine import labels
from chaoslab.fleet.docker.neighbours import Beside
from chaoslab.fleet.stress.registry import StressDriver, Wish, share
from chaoslab.fleet.stress.slowing import CpuShare, StepRest
from chaoslab.fleet.stressors import (
    HeldMemory,
    Mechanism,
    MemoryLimit,
    Neighbours,
    Slowness,
)

_TIGHTEN_S = 0.1
_CUTS = (0.9, 0.97, 0.995, 0.999)
_LEAST_BYTES = 16 << 20
"""Engines refuse less than a few megabytes."""


def drivers_of(clock: Clock) -> Callable[[Wish[Container]], StressDriver]:
    """What carries a burden on a container. FleetError if nothing does."""

    def driver(wish: Wish[Container]) -> StressDriver:
        found: Quota | Starved
        match wish.stressor:
            case Slowness(mechanism=Mechanism.HOOK) as slowness:
                return StepRest(wish.life, slowness)
            case Slowness(mechanism=Mechanism.AUTO | Mechanism.CGROUP) as slowness:
                found = Quota(wish, slowness)
            case MemoryLimit() as limit:
                found = Starved(wish, limit, clock)
            case Neighbours() | HeldMemory() as crowd:
                return Beside(wish, crowd)
            case other:
                raise FleetError(f"the docker fleet cannot put a {other.kind} upon a node")
        for one in wish.others:
            if isinstance(one, type(found)) and one.life is wish.life:
                who = f"{wish.life.spec.name} bears a {wish.stressor.kind} already"
                raise FleetError(f"{who}, of {one.injection}")
        return found

    return driver


class _Limited(StressDriver):
    """Something that the engine limits, written down before."""

    def __init__(self, wish: Wish[Container]) -> None:
        self.life, self.injection = wish.life, wish.injection

    def _owe(self) -> None:
        before: Mapping[str, Json] = asdict(self.life.yard_limits)
        self.life.owe(labels.UNLIMIT, self.injection, **before)

    def _settle(self) -> None:
        self.life.pending_undos.settle(labels.UNLIMIT, self.injection)


class Quota(CpuShare, _Limited):
    """A quota of the engine's. FleetError while nobody knows what the node uses."""

    def __init__(self, wish: Wish[Container], stressor: Slowness) -> None:
        share(wish.life.spec.name, wish.calm_cores, stressor.factor)
        CpuShare.__init__(self, wish.life.spec.name, wish.calm_cores, stressor)
        _Limited.__init__(self, wish)

    @property
    def mechanism(self) -> str:
        """Whose quota."""
        return f"CPU quota of its container, {self._cores:.2f} cores"

    def begin(self) -> None:
        """Limit it."""
        self._owe()
        self._apply()

    def end(self) -> None:
        """All that a node may use."""
        if not self.life.has_exited:
            self.life.limit(replace(self.life.limits, cpus=self.life.yard_limits.cpus))
            self._settle()

    def _apply(self) -> None:
        most = self.life.yard_limits.cpus
        self.life.limit(replace(self.life.limits, cpus=min(most, self._cores)))


class Starved(_Limited):
    """Less memory than it uses, as far as the kernel allows.

    cgroup v1 refuses a limit below what it cannot reclaim at once: then the least that it takes
    holds, and is tried again until an allocation meets it.
    """

    def __init__(self, wish: Wish[Container], stressor: MemoryLimit, clock: Clock) -> None:
        super().__init__(wish)
        self._stressor, self._clock, self._tighten_s = stressor, clock, 0.0

    @property
    def mechanism(self) -> str:
        """Whose limit."""
        return f"memory limit of its container, {self.life.limits.memory_bytes} bytes"

    def begin(self) -> None:
        """Less, and a little more again until the kernel takes it."""
        life, usage = self.life, self.life.usage
        used_bytes = usage.memory_bytes if usage is not None else 0
        most_bytes = self._stressor.limit_bytes
        limit_bytes = max(_LEAST_BYTES, min(most_bytes, used_bytes * 4 // 5 or most_bytes))
        self._owe()
        while True:
            try:
                life.limit(replace(life.limits, memory_bytes=limit_bytes))
            except FleetError:
                if limit_bytes >= life.yard_limits.memory_bytes or life.has_exited:
                    raise
                limit_bytes = min(limit_bytes * 51 // 50, life.yard_limits.memory_bytes)
            else:
                return

    def tend(self) -> None:
        """Less still, while it lives."""
        if self._clock.now_s() < self._tighten_s or self.life.has_exited:
            return
        self._tighten_s = self._clock.now_s() + _TIGHTEN_S
        for share_of_it in _CUTS:
            lower = max(_LEAST_BYTES, int(self.life.limits.memory_bytes * share_of_it))
            with suppress(FleetError):  # it holds as it is, or the node is gone
                self.life.limit(replace(self.life.limits, memory_bytes=lower))
                return

    def counts(self) -> Mapping[str, Json]:
        """Whether it was killed for want of memory, by the engine's word."""
        return {"oom_kills": int(self.life.was_out_of_memory)}

    def end(self) -> None:
        """All the memory that a node may use."""
        life = self.life
        if not life.has_exited:
            life.limit(replace(life.limits, memory_bytes=life.yard_limits.memory_bytes))
            self._settle()
