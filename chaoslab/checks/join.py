"""Did each learner that was brought in come to take part, how fast, and with whose state?

    started ──► member ──► holds everything ──► first step ──► first accepted ──► merged, merged, …
       └─────── from a donor or the syncer, never from itself ──────┘

The counterpart of `rejoin` for learners that were not there before. A learner that is let in and
never contributes has not joined; one whose own initial parameters became the state of the run has
done harm.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import (
    after,
    by_label,
    of_learner_between,
    parts_after,
    training_end_s,
)
from chaoslab.checks.violations import (
    Doubt,
    Measured,
    Violation,
    after_longest,
    conclude,
    time_left,
)
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerJoined,
    LearnerStep,
    MemberJoined,
    MemberRefused,
    NodeStarted,
    OfLearner,
    PushAccepted,
    RoundMerged,
)
from chaoslab.core.units import Duration
from chaoslab.record.journal import FaultStory, History

_L = TypeVar("_L", bound=OfLearner)
_FAIR_CHANCES = 3
"""Who contributed fewer than n times had its chance if this many times n rounds were merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrival:
    """One learner that one injection brought in. Events are None while nothing shows them."""

    learner: str
    story: FaultStory
    until_s: float
    """When it was asked to leave again, or training ended."""
    started: Event[NodeStarted] | None = None
    member: Event[MemberJoined] | None = None
    refused: Event[MemberRefused] | None = None
    complete: Event[LearnerJoined] | None = None
    stepped: Event[LearnerStep] | None = None
    accepted: Event[PushAccepted] | None = None
    merged: Sequence[Event] = ()
    """The rounds merged with it."""

    def clock_s(self, event: Event | None) -> float | None:
        """Seconds from the start of its process to the event."""
        if event is None or self.started is None:
            return None
        return max(0.0, event.time_s - self.started.time_s)

    @property
    def room_s(self) -> float:
        """How long it had."""
        since = self.started or self.story.injecting
        return max(0.0, self.until_s - since.time_s)

    def __str__(self) -> str:
        return f"{self.learner}, brought in by `{self.story.spec}` ({self.story.fault}),"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Every learner that was brought in contributes in time, again and again, to the same run."""

    name: ClassVar[str] = "join"
    summary: ClassVar[str] = "each learner that was brought in takes part, and in time"

    within_s: Duration = 30.0
    """Longest time from the start of its process to its first accepted contribution."""
    contributions: int = 3
    """Rounds merged with it while it was there."""

    def __post_init__(self) -> None:
        if self.contributions < 1:
            raise PlanError(f"`contributions: {self.contributions}` asks for nothing: use 3")

    def judge(self, history: History) -> Finding:
        """Judge each arrival; one that was given too little time is a doubt."""
        found = list(_arrivals(history))
        clocks_s = [arrival.clock_s(arrival.accepted) for arrival in found]
        contributed_s = [clock_s for clock_s in clocks_s if clock_s is not None]
        longest_s = max(contributed_s, default=None)
        return conclude(
            self.name,
            [self._problem(arrival, history) for arrival in found],
            nothing=Doubt(Code.NO_FAULT, "no fault brought a learner in"),
            passed=f"{', '.join(dict.fromkeys(a.learner for a in found))} joined and contributed "
            f"{after_longest(contributed_s)}",
            samples=len(found),
            measured=None
            if longest_s is None
            else Measured(longest_s, self.within_s, Unit.SECONDS),
            numbers=_numbers(found),
        )

    def _problem(self, arrival: _Arrival, history: History) -> Violation | Doubt | None:
        """A violation, a doubt, or nothing to object to."""
        if arrival.complete is not None and arrival.complete.payload.source == "initial":
            text = f"{arrival} made its own initial parameters the state of a run that had begun"
            return _violation(Code.OWN_INITIAL_STATE, arrival, text, arrival.complete)
        clock_s = arrival.clock_s(arrival.accepted)
        if clock_s is None:
            if arrival.room_s < self.within_s and arrival.refused is None:
                text = f"{time_left(arrival.room_s)} for {arrival} to join"
                return Doubt(Code.TOO_LITTLE_TIME, text)
            return _violation(
                Code.NOT_JOINED, arrival, f"{arrival} {_how_far(arrival)}", arrival.member
            )
        if clock_s > self.within_s:
            text = (
                f"{arrival} took {clock_s:.1f} s from its start to its first accepted "
                f"contribution; the bound is {self.within_s:g} s"
            )
            return _violation(Code.TOO_LATE, arrival, text, arrival.accepted)
        return self._too_few(arrival, history)

    def _too_few(self, arrival: _Arrival, history: History) -> Violation | Doubt | None:
        if arrival.accepted is None or len(arrival.merged) >= self.contributions:
            return None
        rounds = history.between(arrival.accepted.time_s, arrival.until_s, RoundMerged)
        chances = sum(1 for _ in rounds)
        text = (
            f"{arrival} contributed to {len(arrival.merged)} of {chances} rounds; "
            f"{self.contributions} are asked for"
        )
        if chances >= _FAIR_CHANCES * self.contributions:
            return _violation(Code.TOO_FEW_CONTRIBUTIONS, arrival, text, arrival.accepted)
        return Doubt(Code.TOO_LITTLE_TIME, text)


def _how_far(arrival: _Arrival) -> str:
    """What became of one that never contributed."""
    if arrival.started is None:
        return "was never started"
    if arrival.refused is not None:
        return f"was refused: {arrival.refused.payload.reason}"
    if arrival.member is None:
        return f"did not register with the syncer in {arrival.room_s:.1f} s"
    if arrival.stepped is None:
        return f"was let in, but made no step in {arrival.room_s:.1f} s"
    return f"stepped, but nothing that it sent was accepted in {arrival.room_s:.1f} s"


def _violation(code: Code, arrival: _Arrival, text: str, event: Event | None) -> Violation:
    seen = event or arrival.started or arrival.story.injecting
    return Violation.at(seen, code, text, arrival.learner)


# ---------------------------------------------------------------- who was brought in


def _arrivals(history: History) -> Iterator[_Arrival]:
    """Each target of each injection that brings learners in, in order."""
    end_s = training_end_s(history)
    for story in history.faults:
        if not story.brings_in or story.failed or story.injecting.time_s >= end_s:
            continue
        for learner in story.targets:
            until_s = min(end_s, story.healing.time_s) if story.healing else end_s
            yield _follow(_Arrival(learner=learner, story=story, until_s=until_s), history)


def _follow(arrival: _Arrival, history: History) -> _Arrival:
    """What its first life since the injection did until it was asked to leave."""
    since, until_s = arrival.story.injecting, arrival.until_s
    starts = after(since, history.between(since.time_s, until_s, NodeStarted))
    started = next((e for e in starts if e.payload.node == arrival.learner), None)
    if started is None:
        return arrival
    life = arrival.learner, started.payload.incarnation

    def first(kind: type[_L]) -> Event[_L] | None:
        found = of_learner_between(history, kind, arrival.learner, since.time_s, until_s)
        return next((e for e in after(since, found) if e.payload.life == life), None)

    merged = [
        part.merged
        for part in parts_after(history, arrival.learner, since, until_s)
        if part.contributor.life == life
    ]
    return replace(
        arrival,
        started=started,
        member=first(MemberJoined),
        refused=first(MemberRefused),
        complete=first(LearnerJoined),
        stepped=first(LearnerStep),
        accepted=first(PushAccepted),
        merged=merged,
    )


def _numbers(found: Sequence[_Arrival]) -> Mapping[str, Json]:
    """The clocks from the start of the process, and from whom each took over the state."""
    labels = [f"{arrival.learner} ({arrival.story.injection})" for arrival in found]
    held = [arrival.complete.payload if arrival.complete else None for arrival in found]
    sources = [said.donor or said.source if said else None for said in held]
    return {
        "member_s": by_label(labels, (a.clock_s(a.member) for a in found)),
        "held_everything_s": by_label(labels, (a.clock_s(a.complete) for a in found)),
        "first_step_s": by_label(labels, (a.clock_s(a.stepped) for a in found)),
        "first_contribution_s": by_label(labels, (a.clock_s(a.accepted) for a in found)),
        "contributions": by_label(labels, (len(a.merged) for a in found)),
        "state_from": by_label(labels, sources),
    }
