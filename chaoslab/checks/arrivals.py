"""Learners that faults brought in: how fast each came to take part, and with whose state.

    started ──► member ──► holds everything ──► first step ──► first accepted ──► merged, merged, …
       └─────── from a donor or the syncer, never from itself ──────┘

The counterpart of `absence` for learners that were not there before; the check `rejoin` judges
both. A learner that is let in and never contributes has not joined; one whose own initial
parameters became the state of the run has done harm.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from chaoslab.checks.codes import Code
from chaoslab.checks.timeline import (
    after,
    by_label,
    of_learner_between,
    parts_after,
    training_end_s,
)
from chaoslab.checks.violations import Counted, Doubt, Violation, time_left
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
from chaoslab.record.history import FaultStory, History

_L = TypeVar("_L", bound=OfLearner)
FAIR_CHANCES = 3
"""A learner that contributed fewer than n times had its chance if this many times n rounds were
merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One learner that one injection brought in. Events are None if the record has none."""

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
    def contributed_s(self) -> float | None:
        """Seconds from the start of its process to its first accepted contribution."""
        return self.clock_s(self.accepted)

    @property
    def room_s(self) -> float:
        """Time from its start, or from the injection, to `until_s`."""
        since = self.started or self.story.injecting
        return max(0.0, self.until_s - since.time_s)

    def __str__(self) -> str:
        return f"{self.learner}, brought in by `{self.story.spec}` ({self.story.fault}),"


def problem_of(
    arrival: Arrival, history: History, *, within_s: float, contributions: int
) -> Violation | Doubt | None:
    """A violation, a doubt, or nothing to object to; too little time is a doubt."""
    if arrival.complete is not None and arrival.complete.payload.source == "initial":
        text = f"{arrival} made its own initial parameters the state of a run that had begun"
        return _violation(Code.OWN_INITIAL_STATE, arrival, text, arrival.complete)
    if arrival.contributed_s is None:
        if arrival.room_s < within_s and arrival.refused is None:
            text = f"{time_left(arrival.room_s)} for {arrival} to join"
            return Doubt(Code.TOO_LITTLE_TIME, text)
        text = f"{arrival} {_how_far(arrival)}"
        return _violation(Code.NOT_JOINED, arrival, text, arrival.member)
    if arrival.contributed_s > within_s:
        text = (
            f"{arrival} took {arrival.contributed_s:.1f} s from its start to its first accepted "
            f"contribution; the bound is {within_s:g} s"
        )
        return _violation(Code.TOO_LATE, arrival, text, arrival.accepted)
    return _too_few(arrival, history, contributions)


def _too_few(arrival: Arrival, history: History, asked: int) -> Violation | Doubt | None:
    if arrival.accepted is None or len(arrival.merged) >= asked:
        return None
    rounds = history.between(arrival.accepted.time_s, arrival.until_s, RoundMerged)
    chances = sum(1 for _ in rounds)
    text = (
        f"{arrival} contributed to {len(arrival.merged)} of {chances} rounds; {asked} are asked for"
    )
    if chances >= FAIR_CHANCES * asked:
        counted = Counted(len(arrival.merged), asked, "contributions")
        return _violation(Code.TOO_FEW_CONTRIBUTIONS, arrival, text, arrival.accepted, counted)
    return Doubt(Code.TOO_LITTLE_TIME, text)


def _how_far(arrival: Arrival) -> str:
    """Last stage reached by a learner that never contributed."""
    if arrival.started is None:
        return "was never started"
    if arrival.refused is not None:
        return f"was refused: {arrival.refused.payload.reason}"
    if arrival.member is None:
        return f"did not register with the syncer in {arrival.room_s:.1f} s"
    if arrival.stepped is None:
        return f"was let in, but made no step in {arrival.room_s:.1f} s"
    return f"stepped, but nothing that it sent was accepted in {arrival.room_s:.1f} s"


def _violation(
    code: Code, arrival: Arrival, text: str, event: Event | None, counted: Counted | None = None
) -> Violation:
    seen = event or arrival.started or arrival.story.injecting
    return Violation.at(seen, code, text, arrival.learner, counted)


# ---------------------------------------------------------------- learners that were brought in


def arrivals(history: History) -> Iterator[Arrival]:
    """Each target of each injection that brings learners in, in order."""
    end_s = training_end_s(history)
    for story in history.faults:
        if not story.brings_in or story.failed or story.injecting.time_s >= end_s:
            continue
        for learner in story.targets:
            until_s = min(end_s, story.healing.time_s) if story.healing else end_s
            yield _follow(Arrival(learner=learner, story=story, until_s=until_s), history)


def _follow(arrival: Arrival, history: History) -> Arrival:
    """Collect the events of its first life since the injection, until it was asked to leave."""
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


def numbers_of(found: Sequence[Arrival]) -> Mapping[str, Mapping[str, Json]]:
    """The clocks from the start of the process, and the source of each one's state."""
    labels = [f"{arrival.learner} ({arrival.story.injection})" for arrival in found]
    complete = [arrival.complete.payload if arrival.complete else None for arrival in found]
    sources = [said.donor or said.source if said else None for said in complete]
    return {
        "member_s": by_label(labels, (a.clock_s(a.member) for a in found)),
        "complete_s": by_label(labels, (a.clock_s(a.complete) for a in found)),
        "first_step_s": by_label(labels, (a.clock_s(a.stepped) for a in found)),
        "first_contribution_s": by_label(labels, (a.contributed_s for a in found)),
        "contributions": by_label(labels, (len(a.merged) for a in found)),
        "state_from": by_label(labels, sources),
    }
