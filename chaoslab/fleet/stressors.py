"""Stressors, which a fleet puts on a node to starve it: data in base units, checked when built.

    faults ── Fleet.stress(name, injection, Slowness(factor=2)) ──► by whichever mechanism there is
           ── Fleet.relieve(name, injection) ─────────────────────► and it is taken away again

A stressor is kept by the injection that put it there: two faults on one node never heal each other.
By what mechanism is up to the fleet; this module starts nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias

from chaoslab.core.errors import PlanError


class Mechanism(StrEnum):
    """Mechanism that slows a node."""

    AUTO = "auto"
    """The best that the place allows: quota, else duty cycle, else hook."""
    CGROUP = "cgroup"
    """A CPU quota by cgroup v1 or v2."""
    DUTY_CYCLE = "duty_cycle"
    """Stopped and continued, many times a second, so that it gets no more CPU time than its share.
    """
    HOOK = "hook"
    """The learner itself rests after each step: the only way where no kernel can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lasting:
    """A stressor that does not outlast its fault by much."""

    for_s: float | None = None
    """Time after which it ends by itself if the harness is stopped; None: with the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness(_Lasting):
    """A step takes `factor` times as long as the node's own did before."""

    factor: float
    mechanism: Mechanism = Mechanism.AUTO

    kind: ClassVar[str] = "slowness"

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise PlanError(f"a chip of {self.factor:g}x would be faster: write a factor above 1x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours(_Lasting):
    """Processes that compute without end on the cores that the node may use."""

    count: int

    kind: ClassVar[str] = "neighbours"


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupiedMemory(_Lasting):
    """A process beside the node that occupies this much memory and has touched all of it."""

    size_bytes: int

    kind: ClassVar[str] = "occupied_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit(_Lasting):
    """A limit of memory that the node shares with processes which use it up: the kernel kills."""

    limit_bytes: int

    kind: ClassVar[str] = "memory_limit"


Stressor: TypeAlias = Slowness | Neighbours | OccupiedMemory | MemoryLimit
