"""Was a fault that had to hit a point of the protocol there in time? The order of the record says.

    phase.reached ── fault.injecting ── fault.injected        in time
    phase.reached ── what ends the phase ── fault.injected    too late: the point had passed

What a node wrote before it died may be read after that; so what counts is the injection's end.
"""

from chaoslab.core.events import Event, Kind
from chaoslab.record.journal import FaultStory, History

_ENDS = {
    "quorum": (Kind.ROUND_MERGED, "round"),
    "before_write": (Kind.ROUND_MERGED, "round"),
    "written": (Kind.ROUND_MERGED, "round"),
    "publish": (Kind.ROUND_MERGED, "round"),
    "push": (Kind.PUSH_ACCEPTED, "round"),
    "donate": (Kind.LEARNER_JOINED, None),
    "adopt": (Kind.LEARNER_ADOPTED, "fragment"),
}
"""By phase: the event that shows that it is over, and what it has in common with the phase."""


def phase_over(story: FaultStory, history: History) -> Event | None:
    """What shows that the phase was over before the fault was in; None if it came in time."""
    reached = story.injecting.data.get("reached")
    if not isinstance(reached, int) or not 0 <= reached < len(history.events):
        return None
    point = history.events[reached]
    kind, common = _ENDS[point.text("phase")]
    until = story.injected.seq if story.injected else len(history.events)
    return next(
        (
            event
            for event in history.of(kind)
            if reached < event.seq < until
            and _is_its(event, point)
            and (common is None or event.data.get(common) == point.data.get(common))
        ),
        None,
    )


def _is_its(event: Event, point: Event) -> bool:
    """Whether the event is about the node that was at the point."""
    if event.kind is Kind.LEARNER_JOINED:
        return event.data.get("donor") == point.source
    return point.source in (event.source, event.data.get("learner"))
