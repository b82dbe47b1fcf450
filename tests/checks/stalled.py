"""Stories that the harness heard late: it stalled, and stamped what came with the end of it."""

from collections.abc import Callable
from dataclasses import replace

from chaoslab.core.events import Event, Kind
from chaoslab.record.history import History
from tests.histories import Story

_BORN_S = 40.0
"""What the clock of a node shows when the run begins."""


def stalled(story: Story, tell: Callable[[Story], object], host: str = "") -> History:
    """The history of a story in which the harness heard of nothing that `tell` tells.

    With a host, because that was out of reach.
    """
    since_s = story.now_s
    tell(story)
    end_s = story.now_s
    said = {"silent_s": end_s - since_s, "since_s": since_s, "undone": [], "host": host}
    story.say(Kind.HARNESS_STALLED, "harness", **said)
    story.train(12).end()

    def heard(event: Event) -> Event:
        if event.source == "harness" or event.kind in (Kind.NODE_STARTED, Kind.NODE_EXITED):
            return event
        is_late = since_s < event.time_s <= end_s
        time_s = end_s if is_late else event.time_s
        return replace(event, node_s=event.time_s + _BORN_S, time_s=time_s)

    return History(map(heard, story.events))
