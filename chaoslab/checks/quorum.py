"""Quorum: a round comes whenever enough learners can give one. Judged between disturbances.

    members, no fault open on them ≥ quorum ─► a round within the bound ─► and again, …
                 fault begins or heals, member joins or leaves: measured anew

Unlike `continuity` it demands nothing while too few learners are well, and needs no baseline.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import baseline_end_s, training_end_s
from chaoslab.checks.violations import Measured, Violation, conclude, unknown
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    FaultHealed,
    FaultInjecting,
    MemberJoined,
    MemberLeft,
    NodeExited,
    RoundMerged,
    SyncerReady,
)
from chaoslab.core.units import Duration
from chaoslab.record.history import History

_SYNCER = "syncer"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumProgress:
    """No stretch without a round is longer than the bound while a quorum is well."""

    name: ClassVar[str] = "quorum_progress"
    summary: ClassVar[str] = "a round is merged whenever enough learners are under no fault"

    quorum: int = 1
    """Members without an open fault that are enough for a round."""
    within_s: Duration = 30.0
    """Longest time without a round while there are this many, and nothing begins, heals, joins or
    leaves."""

    def __post_init__(self) -> None:
        if self.quorum < 1:
            raise PlanError(f"must be at least 1, got {self.quorum}", key="quorum")
        if self.within_s <= 0:
            raise PlanError("must be above 0s", key="within")

    def judge(self, history: History) -> Finding:
        """Walk the record from the baseline to the end of training."""
        start_s = baseline_end_s(history)
        if start_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to measure from")
        walk = _Walk(quorum=self.quorum, start_s=start_s, end_s=training_end_s(history))
        stretches = list(walk.stretches(history))
        worst_s = max((one.length_s for one in stretches), default=0.0)
        violations = [
            Violation(
                code=Code.GAP_TOO_LONG,
                seq=one.seq,
                text=f"no round for {one.length_s:.1f} s from {one.start_s:.1f} s on, with "
                f"{one.healthy} members under no fault, where {self.quorum} are enough",
                culprit=_SYNCER,
            )
            for one in stretches
            if one.length_s > self.within_s
        ]
        return conclude(
            self.name,
            violations,
            passed=f"with a quorum there was a round every {worst_s:.1f} s at the latest",
            samples=len(stretches),
            measured=Measured(worst_s, self.within_s, Unit.SECONDS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Undisturbed time without a round, with a quorum."""

    start_s: float
    length_s: float
    healthy: int
    seq: int
    """Sequence number of the event that ends it."""


@dataclass(slots=True, kw_only=True)
class _Walk:
    """State of the training at one event after the other."""

    quorum: int
    start_s: float
    end_s: float
    members: set[str] = field(default_factory=set)
    harmed: Counter[str] = field(default_factory=Counter)
    """By node: how many faults are open on it; one that brings learners in does no harm."""
    open: set[str] = field(default_factory=set)
    """Injections that are counted there."""
    is_syncer_up: bool = False
    since_s: float | None = None
    """Begin of the present stretch; None without a quorum."""

    def stretches(self, history: History) -> Iterator[_Stretch]:
        """Every stretch that ended, by a round, a disturbance, or the end of training."""
        last_seq = 0
        for event in history.of(
            RoundMerged, FaultInjecting, FaultHealed, MemberJoined, MemberLeft, SyncerReady,
            NodeExited,
        ):  # fmt: skip
            if event.time_s >= self.end_s:
                break
            last_seq = event.seq
            yield from self._end(event.time_s, event.seq)
            self._take(event)
            self.since_s = event.time_s if self._has_quorum else None
        yield from self._end(self.end_s, last_seq)

    @property
    def _healthy(self) -> int:
        return sum(not self.harmed[name] for name in self.members)

    @property
    def _has_quorum(self) -> bool:
        is_served = self.is_syncer_up and not self.harmed[_SYNCER]
        return is_served and self._healthy >= self.quorum

    def _end(self, time_s: float, seq: int) -> Iterator[_Stretch]:
        if self.since_s is not None and time_s > self.start_s:
            start_s = max(self.since_s, self.start_s)
            yield _Stretch(
                start_s=start_s, length_s=time_s - start_s, healthy=self._healthy, seq=seq
            )

    def _take(self, event: Event) -> None:
        said = event.payload
        match said:
            case FaultInjecting(brings_in=False):
                self.open.add(said.injection)
                self.harmed.update(said.targets)
            case FaultHealed() if said.injection in self.open:
                self.open.remove(said.injection)
                self.harmed.subtract(said.targets)
            case MemberJoined():
                self.members.add(said.learner)
            case MemberLeft():
                self.members.discard(said.learner)
            case SyncerReady():
                self.is_syncer_up = True
                self.members.clear()
            case NodeExited(node="syncer"):
                self.is_syncer_up = False
            case _:
                pass
