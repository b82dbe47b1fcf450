"""Injections in vain: those that found nothing to break, because another fault of the plan had it
already, and those that came when the point of the protocol that they had to hit was over.

    process.kill      ├─── under a fault ────┤·· on the way back ··┤
    network.partition      ├─ no traffic to freeze ─┤                        moot: no doubt
    network.partition                                    ├─ no traffic ─┤    failed: a doubt

The other injection must be proved and must have had the target at that time: it kept the harness
from injecting at all, or it took the target, or the syncer at the other end, out of training, and
the evidence says that what was to be broken was not there. A moot injection is none that took
place.

    phase.reached ── fault.injecting ── fault.injected        in time
    phase.reached ── what ends the phase ── fault.injected    too late: the point had passed

What a node wrote before it died may be read after that; so what counts is the injection's end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.outages import heard, outages
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    FaultSkipped,
    IdlePeriod,
    LearnerAdopted,
    LearnerJoined,
    Obstacle,
    Payload,
    PhaseReached,
    PushAccepted,
    RoundMerged,
    Status,
)
from chaoslab.core.protocol import Phase
from chaoslab.record.history import FaultStory, History

_HAD = frozenset({Obstacle.UNDER_FAULT, Obstacle.NOT_ALIVE})
"""Obstacles of a skipped injection that another one can be the cause of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cover:
    """Time in which a proved injection had a target."""

    story: FaultStory
    target: str
    start_s: float
    end_s: float

    def __str__(self) -> str:
        return f"{self.story.injection} ({self.story.fault}) had {self.target} already"


def moot(history: History) -> dict[str, str]:
    """Moot injections, begun or skipped, and in words which other injection had each target."""
    begun = [
        story
        for story in history.faults
        if story.failed is None and story.status is Status.FAILED
        if any(event.payload.idle for event in story.evidence)  # there was nothing to break
    ]
    skipped = [e for e in history.of(FaultSkipped) if e.payload.obstacle in _HAD]
    if not begun and not skipped:
        return {}
    away, open_ = tuple(_away(history)), tuple(_open(history))
    found = {story.injection: _begun(story, away) for story in begun}
    for event in skipped:
        covers = open_ if event.payload.obstacle is Obstacle.UNDER_FAULT else away
        found[event.payload.injection] = _skipped(event, covers)
    return {injection: said for injection, said in found.items() if said}


def _begun(story: FaultStory, away: Iterable[_Cover]) -> str:
    """Injection that had each target without proof when, or while, it was missing; "" if none."""
    said = []
    missing = {e.payload.target: e for e in story.evidence if e.payload.status is not Status.PROVED}
    if set(story.targets) - {event.payload.target for event in story.evidence}:
        return ""
    for target, seen in missing.items():
        start_s = story.injecting.time_s
        idle = seen.payload.idle
        until_s = (
            {IdlePeriod.AT_START: start_s, IdlePeriod.THROUGHOUT: seen.time_s}.get(idle)
            if idle
            else None
        )
        others = (c for c in away if c.target == target and c.story.injection != story.injection)
        by = [c for c in others if until_s and c.start_s <= start_s and until_s <= c.end_s]
        if not by:
            return ""
        said.append(str(by[0]))
    return "; ".join(said)


def _skipped(event: Event[FaultSkipped], covers: Iterable[_Cover]) -> str:
    """Injection that had each target when this one was to begin; "" if one target was free."""
    by = {c.target: str(c) for c in covers if c.start_s <= event.time_s <= c.end_s}
    targets = event.payload.targets
    return "; ".join(by[target] for target in targets) if by.keys() >= set(targets) else ""


def _open(history: History) -> Iterator[_Cover]:
    """The proved injections on each target, whatever they do to it, until they were healed."""
    for story in history.faults:
        for target in story.targets if story.status is Status.PROVED else ():
            end_s = story.healed.time_s if story.healed else inf
            yield _Cover(story=story, target=target, start_s=story.injecting.time_s, end_s=end_s)


def _away(history: History) -> Iterator[_Cover]:
    """The proved injections that took a learner, or its syncer, out of training."""
    for absence in absences(history):
        for story in absence.stories:
            if story.status is Status.PROVED:
                back = absence.accepted if _is_last(story, absence) else None
                yield _cover(story, absence.learner, back)
    for outage in outages(history):
        for learner in history.learners if outage.story.status is Status.PROVED else ():
            back = heard(history, learner, outage.since, inf) if outage.since else None
            yield _cover(outage.story, learner, back)


def _is_last(story: FaultStory, absence: Absence) -> bool:
    """Whether no other injection of the absence was healed later: the return is from this one."""
    healings = [one.healing.seq for one in absence.stories if one.healing]
    return story.healing is not None and story.healing.seq == max(healings)


def _cover(story: FaultStory, target: str, back: Event | None) -> _Cover:
    """Cover up to the time when the target took part again; to the heal if it never did."""
    healing_s = story.healing.time_s if story.healing else inf
    end_s = max(healing_s, back.time_s) if back else healing_s
    return _Cover(story=story, target=target, start_s=story.injecting.time_s, end_s=end_s)


# ---------------------------------------------------------------- points of the protocol


def phase_over(story: FaultStory, history: History) -> Event | None:
    """Event that shows the phase over before the fault was in; None if it came in time."""
    reached = story.injecting.payload.reached
    if reached is None or not 0 <= reached < len(history.events):
        return None
    point = history.events[reached]
    at = point.payload
    if not isinstance(at, PhaseReached):
        return None
    until = story.injected.seq if story.injected else len(history.events)
    return next(
        (
            event
            for event in history.events[reached + 1 : until]
            if _ends(event, event.payload, at, point.source)
        ),
        None,
    )


def _ends(event: Event, said: Payload, at: PhaseReached, source: str) -> bool:
    """Whether an event shows that the node `source` is beyond the phase."""
    match at.phase:
        case Phase.PUSH:
            if not isinstance(said, PushAccepted) or said.round != at.round:
                return False
            return source in (event.source, said.learner)
        case Phase.DONATE:
            return isinstance(said, LearnerJoined) and said.donor == source
        case Phase.ADOPT:
            if not isinstance(said, LearnerAdopted) or said.fragment != at.fragment:
                return False
            return source in (event.source, said.learner)
        case _:  # the phases of the syncer: quorum, before_write, written, publish
            is_its = isinstance(said, RoundMerged) and said.round == at.round
            return is_its and source == event.source
