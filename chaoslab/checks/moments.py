"""Was a fault that had to hit a point of the protocol there in time? The order of the record says.

    phase.reached ── fault.injecting ── fault.injected        in time
    phase.reached ── what ends the phase ── fault.injected    too late: the point had passed

What a node wrote before it died may be read after that; so what counts is the injection's end.
"""

from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerJoined,
    Payload,
    PhaseReached,
    PushAccepted,
    RoundMerged,
)
from chaoslab.record.journal import FaultStory, History


def phase_over(story: FaultStory, history: History) -> Event | None:
    """What shows that the phase was over before the fault was in; None if it came in time."""
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
        case "push":
            if not isinstance(said, PushAccepted) or said.round != at.round:
                return False
            return source in (event.source, said.learner)
        case "donate":
            return isinstance(said, LearnerJoined) and said.donor == source
        case "adopt":
            if not isinstance(said, LearnerAdopted) or said.fragment != at.fragment:
                return False
            return source in (event.source, said.learner)
        case _:  # the phases of the syncer: quorum, before_write, written, publish
            is_its = isinstance(said, RoundMerged) and said.round == at.round
            return is_its and source == event.source
