"""Proofs of faults, tested by the record alone, not by the evidence.

    evidence.measured, proved ─► its proof ┬─► no event of the time of the fault: a doubt
                                           └─► an exit, and work of that life after it: a doubt

Faults come from other packages, too, so that `proved` is their word until an event of the time of
the fault bears it out.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    EvidenceMeasured,
    LearnerJoined,
    LearnerStep,
    MemberJoined,
    NodeExited,
    OfInjection,
    OfLearner,
    PushAccepted,
    RoundMerged,
    Status,
)

WORK = (LearnerStep, LearnerJoined, MemberJoined, PushAccepted, RoundMerged)
"""Events by which a life of a learner works."""
_LATE_S = 1.0
_LATE_ROUNDS = 12
"""A push that was on its way may be accepted, and merged, in one of the next rounds."""


def outlived(exits: Sequence[Event[NodeExited]], work: Iterable[Event]) -> Mapping[int, Event]:
    """First work of a life after its exit that cannot have been on its way, by seq of the exit.

    A worker that goes on when its launcher is killed. `work`: events of `WORK`, in order.
    """
    ended = {
        (e.payload.node, e.payload.incarnation): e for e in reversed(exits) if e.payload.is_seen
    }
    found: dict[int, Event] = {}
    merged: list[int] = []
    for event in work:
        said = event.payload
        if isinstance(said, RoundMerged):
            merged.append(event.seq)
        for one in said.contributors if isinstance(said, RoundMerged) else (said,):
            died = ended.get(one.life) if isinstance(one, OfLearner) else None
            if died is None or died.seq in found or event.seq < died.seq:
                continue
            if isinstance(said, RoundMerged | PushAccepted):
                is_late = len(merged) - bisect(merged, died.seq) > _LATE_ROUNDS
            else:
                is_late = event.time_s > died.time_s + _LATE_S
            if is_late:
                found[died.seq] = event
    return found


def proof_doubts(
    evidence: Iterable[Event[EvidenceMeasured]],
    began: int,
    events: Sequence[Event],
    worked_on: Mapping[int, Event],
) -> Iterator[tuple[str, str]]:
    """Target, and why its proof does not hold. `began`: seq of the beginning of the fault."""
    for event in evidence:
        said = event.payload
        if said.status is not Status.PROVED:
            continue
        if not any(began < n < event.seq and _is_outside(events[n]) for n in said.proof):
            yield (
                said.target,
                "no event between the beginning of the fault and its heal is the proof",
            )
        for late in (worked_on[n] for n in said.proof if n in worked_on):
            yield (
                said.target,
                f"it still worked at {late.time_s:.1f} s, after the exit that is the proof",
            )


def _is_outside(event: Event) -> bool:
    """Whether it is more than the fault's own word."""
    return not isinstance(event.payload, OfInjection | EvidenceMeasured)
