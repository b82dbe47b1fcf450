"""Faults that starve a learner by its neighbours: compute.steal, memory.pressure, process.oom.

They are real: processes that compute, occupy memory, or use a limit of memory up until the kernel
kills. What is no such thing is called what it is (`by: imitation`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import NodeCounted
from chaoslab.core.units import Bytes, Factor, plural
from chaoslab.faults.actions import Stresses, start_all
from chaoslab.faults.base import Layer
from chaoslab.faults.container import reported
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.pace import Stage, pace_of
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Ability, Fleet
from chaoslab.fleet.stressors import MemoryLimit, Neighbours, OccupiedMemory
from chaoslab.plan.model import Injection
from chaoslab.record.exits import how_it_ended

_MiB = 1 << 20
_BURNERS_MOST = 64
_BURNER_SHARE = 0.05
"""A neighbour that got less of a core than this on average has stolen nothing."""
_HELD_SHARE = 0.8
"""Least share of the requested memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSteal(Stresses):
    """Busy neighbours: processes that compute on the very cores that the learner may use."""

    burners: int = 2
    """Number of burners for each target. Other programs on these cores feel them, too."""
    least_factor: Factor = 1.15
    """Least factor by which the learner's steps take longer; less is weak evidence."""

    name = "compute.steal"
    summary = "other processes compute on the learner's cores"
    strength: ClassVar[Mapping[str, float]] = {"burners": 0.0}
    layer = Layer.SCHEDULER
    imitates = "a noisy neighbour, or data loading that competes for the cores"
    proof = "CPU time that they used, and step time by the learner's own before"
    needs = frozenset({Ability.CROWD})

    def __post_init__(self) -> None:
        if not 1 <= self.burners <= _BURNERS_MOST:
            raise PlanError(f"`burners: {self.burners}`: use 1 to {_BURNERS_MOST}", key="burners")
        if self.least_factor <= 1:
            raise PlanError("`least_factor` is above 1x", key="least_factor")

    def stressor(self, injection: Injection) -> Neighbours:
        """The neighbours of each target."""
        return Neighbours(count=self.burners, for_s=injection.for_s)

    def look(self, window: EvidenceWindow) -> Found:
        """Load that they took, and its effect on the learner."""
        counted = _counted(window)
        used_s = (counted[-1].payload.cpu_s or 0.0) if counted else 0.0
        lasted_s = max(window.end_s - window.begin_s, 1e-9)
        if used_s < _BURNER_SHARE * lasted_s:
            text = f"had no busy neighbours: they used {used_s:.1f} s of the cores"
            return no_evidence(Code.NOT_APPLIED, text)
        pace = pace_of(window, (Stage(offset_s=0.0, factor=self.least_factor),))
        if isinstance(pace, Found):
            return pace
        is_slow = pace.ratio >= self.least_factor
        return Found(
            code=Code.AS_ASKED if is_slow else Code.OUT_OF_TOLERANCE,
            text=f"took {pace.ratio:.2f}x its own step time beside {self.burners} processes that "
            f"used {used_s:.1f} s of its cores; at least {self.least_factor:g}x was asked",
            measured={**pace.data(), "burners_cpu_s": used_s},
            proof=(*pace.proof, counted[-1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPressure(Stresses):
    """A process beside the learner occupies memory, and has touched every page of it.

    Refused where that is more than half of what the machine has left: it is to survive the run.
    """

    size_bytes: Bytes = 256 * _MiB
    """Memory for each target."""

    name = "memory.pressure"
    summary = "another process occupies memory beside the learner"
    strength: ClassVar[Mapping[str, float]] = {"size_bytes": 0.0}
    layer = Layer.MEMORY
    imitates = "a leak in a neighbour; a page cache that is pushed out"
    proof = "resident size of that process, and what the machine has left"
    needs = frozenset({Ability.CROWD})

    def __post_init__(self) -> None:
        if self.size_bytes < _MiB:
            raise PlanError("`size` is at least 1MiB", key="size")

    def stressor(self, injection: Injection) -> OccupiedMemory:
        """The process beside each target."""
        return OccupiedMemory(size_bytes=self.size_bytes, for_s=injection.for_s)

    def look(self, window: EvidenceWindow) -> Found:
        """Memory that is really occupied, at the last look."""
        counted = _counted(window)
        occupied_bytes = (counted[-1].payload.rss_bytes or 0.0) if counted else 0.0
        share = occupied_bytes / self.size_bytes
        if share < _HELD_SHARE / 2:
            text = f"felt no pressure: {occupied_bytes / 1e6:,.0f} MB were occupied beside it"
            return no_evidence(Code.NOT_APPLIED, text)
        return Found(
            code=Code.AS_ASKED if share >= _HELD_SHARE else Code.OUT_OF_TOLERANCE,
            text=f"ran beside a process that occupied {occupied_bytes / 1e6:,.0f} MB; "
            f"{self.size_bytes / 1e6:,.0f} MB were asked",
            measured={
                "rss_bytes": occupied_bytes,
                "available_bytes": counted[-1].payload.available_bytes,
            },
            proof=(counted[-1],),
        )


class Killer(StrEnum):
    """Killer when memory runs out."""

    KERNEL = "kernel"
    """The kernel: it finds that the cgroup of the learner has no memory left."""
    IMITATION = "imitation"
    """No killer: the learner gets the same signal, and no memory is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOom(Stresses):
    """The learner is killed out of memory; heal by starting its next incarnation.

    By the kernel: the learner shares a limit of memory with processes that use it up, and is the
    first in its line; in a pod the cluster calls it OOMKilled. That needs memory cgroups;
    `by: imitation` needs none and proves less.
    """

    by: Killer = Killer.KERNEL
    """kernel, or imitation: the same SIGKILL without any want of memory."""
    limit_bytes: Bytes = 256 * _MiB
    """Memory limit of the group; refused above half of the machine's free memory. In a pod the
    limit of its container counts."""

    name = "process.oom"
    summary = "the kernel kills the learner out of memory"
    layer = Layer.MEMORY
    imitates = "a leak or an oversized batch in host memory; device memory is not touched"
    proof = "exit by SIGKILL, and the kernel's own count of such kills"
    takes_away = True
    duration_key = "down_s"

    def __post_init__(self) -> None:
        if self.limit_bytes < 16 * _MiB:
            raise PlanError("`limit` is at least 16MiB", key="limit")

    @property
    def needs(self) -> frozenset[Ability]:
        """A limit of memory; for an imitation no more than to kill."""
        if self.by is Killer.IMITATION:
            return frozenset({Ability.KILL})
        return frozenset({Ability.KILL, Ability.MEMORY_LIMIT})

    def stressor(self, injection: Injection) -> MemoryLimit:
        """The limit that each target shares."""
        return MemoryLimit(limit_bytes=self.limit_bytes, for_s=injection.for_s)

    def inject(self, injection: Injection, fleet: Fleet) -> None:
        """Leave it no memory; or send the signal."""
        if self.by is Killer.IMITATION:
            fleet.kill(*injection.targets)
        else:
            Stresses.inject(self, injection, fleet)

    def heal(self, injection: Injection, fleet: Fleet) -> None:
        """No limit, and the next incarnation of what died."""
        Stresses.heal(self, injection, fleet)
        start_all(injection, fleet)

    def requested(self) -> Mapping[str, Json]:
        return {"by": self.by.value}

    def look(self, window: EvidenceWindow) -> Found:
        """Its end, and the proof that it was out of memory."""
        exited, counted = window.exited, _counted(window)
        kills = (counted[-1].payload.oom_kills or 0) if counted else 0
        if window.incarnation is None:
            return no_evidence(Code.NOT_RUNNING, "was not running when the fault began")
        if exited is None:
            text = f"was not killed; the kernel counts {plural(kills, 'such kill')}"
            return no_evidence(Code.STILL_RUNNING, text, oom_kills=kills)
        if exited.payload.signal != "SIGKILL":
            text = f"ended by itself ({how_it_ended(exited)}), not by SIGKILL"
            return no_evidence(Code.EXITED_INSTEAD, text)
        down_s = window.down_s(exited)
        measured: dict[str, Json] = {"oom_kills": kills, "down_s": down_s}
        if self.by is Killer.IMITATION:
            text = f"was killed by SIGKILL and down for {down_s:.1f} s: an imitation, no memory was"
            return Found(code=window.was_away(down_s), text=f"{text} short", measured=measured,
                         proof=(exited,))  # fmt: skip
        if not kills:
            text = "was killed, and not by the kernel out of memory"
            return no_evidence(Code.OTHER_CAUSE, text, **measured)
        return Found(
            code=window.was_away(down_s),
            text="was killed by the kernel out of memory (it counts "
            f"{plural(kills, 'kill')}, those of our own processes included) and was down for "
            f"{down_s:.1f} s",
            measured=measured,
            proof=(exited, counted[-1], reported(window, "oom")),
        )


def _counted(window: EvidenceWindow) -> list[Event[NodeCounted]]:
    """Measurements of this fault's own stressor on the target."""
    return [e for e in window.of(NodeCounted) if e.payload.injection == window.injection.id]
