"""Handover: every learner that was let in gets the state of the training, and in time.

    member.joined (source donor or syncer) ── waits ──► learner.joined: it holds everything
                                                └─ member.left, training ends: it was in vain
    a fault begins or heals on the learner or the syncer: measured anew; while it is open: not.
    One that brings the learner in is none of these.

A donor may die, hang or be slow, and then another one, or the syncer, is there to help. Unlike
`rejoin` this judges every membership, whatever it was that made the learner ask.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, cast

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import training_end_s
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    FaultHealed,
    FaultInjecting,
    LearnerJoined,
    MemberJoined,
    MemberLeft,
    NodeExited,
    SyncerReady,
)
from chaoslab.core.units import Duration
from chaoslab.record.history import History

_SYNCER = "syncer"
_HELPED = ("donor", "syncer")
"""Sources of those that wait for the state of the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """No member waits longer than the bound for its first state while no fault affects it."""

    name: ClassVar[str] = "handover"
    summary: ClassVar[str] = "each learner that is let in gets the state of the training in time"

    within_s: Duration = 45.0
    """Longest wait of a member while no fault is open on it or on the syncer, and none begins or
    heals there. The syncer asks another donor after 20 s."""

    def __post_init__(self) -> None:
        if self.within_s <= 0:
            raise PlanError("must be above 0s", key="within")

    def judge(self, history: History) -> Finding:
        """Walk the record to the end of training."""
        waits = list(_Walk(end_s=training_end_s(history)).waits(history))
        worst_s = max((one.longest_s for one in waits), default=0.0)
        violations = [
            Violation.at(
                one.joined,
                Code.NOT_HELPED,
                f"{said.learner} was let in and waited for {one.longest_s:.1f} s for the state of "
                f"the training, first of {said.donor or 'the syncer'}",
                said.learner,
            )
            for one in waits
            for said in (one.joined.payload,)
            if one.longest_s > self.within_s
        ]
        return conclude(
            self.name,
            violations,
            nothing=Doubt(Code.NO_FAULT, "no learner needed the state of the training"),
            passed=f"each learner got the state of the training within {worst_s:.1f} s",
            samples=len(waits),
            measured=Measured(worst_s, self.within_s, Unit.SECONDS),
        )


@dataclass(slots=True, kw_only=True)
class _Wait:
    """One membership that waits for its state."""

    joined: Event[MemberJoined]
    since_s: float | None
    """Beginning of the undisturbed wait; None while a fault is open."""
    longest_s: float = 0.0
    """Longest undisturbed part of the wait."""

    def measure(self, time_s: float) -> None:
        """The undisturbed part ends here."""
        if self.since_s is not None:
            self.longest_s = max(self.longest_s, time_s - self.since_s)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """State of the memberships at one event after the other."""

    end_s: float
    waiting: dict[str, _Wait] = field(default_factory=dict)
    """Waits by learner."""
    harmed: Counter[str] = field(default_factory=Counter)
    """Number of open faults by node."""
    open: set[str] = field(default_factory=set)
    """Injections that are counted there."""

    def waits(self, history: History) -> Iterator[_Wait]:
        """Every wait, when it has ended: by its end, by the membership's, or by training's."""
        for event in history.of(
            MemberJoined, LearnerJoined, MemberLeft, SyncerReady, NodeExited, FaultInjecting,
            FaultHealed,
        ):  # fmt: skip
            if event.time_s >= self.end_s:
                break
            yield from self._take(event)
        yield from self._end(tuple(self.waiting), self.end_s)

    def _take(self, event: Event) -> Iterator[_Wait]:
        said, time_s = event.payload, event.time_s
        match said:
            case MemberJoined() if self._waits(said):
                pass  # it is told of another donor, or of none, and waits on
            case MemberJoined():
                yield from self._end((said.learner,), time_s)
                if said.source in _HELPED:
                    since_s = time_s if self._is_sound(said.learner) else None
                    joined = cast("Event[MemberJoined]", event)
                    self.waiting[said.learner] = _Wait(joined=joined, since_s=since_s)
            case LearnerJoined() | MemberLeft():
                if self._waits(said):
                    yield from self._end((said.learner,), time_s)
            case NodeExited(node=node):
                yield from self._end((node,), time_s)
            case SyncerReady():  # its last life took all memberships with it
                yield from self._end(tuple(self.waiting), time_s)
            case FaultInjecting(brings_in=False):
                self.open.add(said.injection)
                self.harmed.update(said.targets)
                self._disturb(said.targets, time_s)
            case FaultHealed() if said.injection in self.open:
                self.open.remove(said.injection)
                self.harmed.subtract(said.targets)
                self._disturb(said.targets, time_s)
            case _:
                pass

    def _waits(self, said: MemberJoined | LearnerJoined | MemberLeft) -> bool:
        """Whether this membership waits for its state."""
        wait = self.waiting.get(said.learner)
        return wait is not None and wait.joined.payload.epoch == said.epoch

    def _is_sound(self, learner: str) -> bool:
        return not self.harmed[learner] and not self.harmed[_SYNCER]

    def _disturb(self, targets: tuple[str, ...], time_s: float) -> None:
        for learner, wait in self.waiting.items():
            if learner in targets or _SYNCER in targets:
                wait.measure(time_s)
                wait.since_s = time_s if self._is_sound(learner) else None

    def _end(self, learners: tuple[str, ...], time_s: float) -> Iterator[_Wait]:
        for learner in learners:
            if (wait := self.waiting.pop(learner, None)) is not None:
                wait.measure(time_s)
                yield wait
