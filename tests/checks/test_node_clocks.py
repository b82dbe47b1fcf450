"""Events of nodes happened when their own clocks say, as far as the harness can have been late."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from chaoslab.checks.node_clocks import by_node_clocks
from chaoslab.core.events import Event, Kind
from chaoslab.record.history import History


def heard(*rounds: tuple[float, float | None], stall: tuple[float, float] | None = None) -> History:
    """Rounds by when the harness heard of them and what the syncer's clock showed then."""
    events = [
        Event(seq=0, time_s=time_s, source="syncer", kind=Kind.ROUND_MERGED, node_s=node_s)
        for time_s, node_s in rounds
    ]
    if stall is not None:
        since_s, end_s = stall
        data = {"silent_s": end_s - since_s, "since_s": since_s, "undone": []}
        place = sum(event.time_s <= end_s for event in events)
        stalled = Event(seq=0, time_s=end_s, source="harness", kind=Kind.HARNESS_STALLED, data=data)
        events.insert(place, stalled)
    return History(replace(event, seq=seq) for seq, event in enumerate(events))


def times_s(history: History) -> Sequence[float]:
    found = by_node_clocks(history).of(Kind.ROUND_MERGED)
    return [round(event.time_s, 3) for event in found]


HIDES_A_PAUSE = [(10.0, 2.0), (20.0, 3.0), (20.5, 12.5)]


@pytest.mark.parametrize(
    ("rounds", "stall", "happened_s"),
    [
        (
            [(10.0, 2.0), (15.0, 3.0), (15.0, 4.0), (15.0, 6.5), (15.5, 7.5)],
            (10.5, 15.0),
            [10.0, 11.0, 12.0, 14.5, 15.5],
        ),
        (HIDES_A_PAUSE, None, [10.0, 20.0, 20.5]),
        (HIDES_A_PAUSE, (18.0, 20.0), [10.0, 20.0, 20.5]),
        ([(10.0, 2.0), (11.9, 3.0), (12.0, 4.0)], None, [10.0, 11.0, 12.0]),
        ([(10.0, 2.0), (11.0, 503.0), (12.0, 504.0)], None, [10.0, 11.0, 12.0]),
        ([(10.0, None), (15.0, None)], (10.5, 15.0), [10.0, 15.0]),
    ],
    ids=[
        "heard after a stall", "a clock that explains too much without a stall",
        "a clock that explains more than the stall", "a second late without a note",
        "a clock that jumps", "no clock",
    ],
)  # fmt: skip
def test_rounds_happened_when_a_clock_says_that_is_believed(
    rounds: list[tuple[float, float | None]],
    stall: tuple[float, float] | None,
    happened_s: list[float],
) -> None:
    assert times_s(heard(*rounds, stall=stall)) == happened_s


def test_each_life_has_its_own_clock() -> None:
    old = heard((10.0, 9.0)).events
    start = Event(
        seq=1, time_s=11.0, source="syncer", kind=Kind.NODE_STARTED, data={"node": "syncer"}
    )
    new = [replace(event, seq=event.seq + 2) for event in heard((12.0, 0.5), (14.0, 2.0)).events]
    assert times_s(History([*old, start, *new])) == [10.0, 12.0, pytest.approx(13.5)]


def test_the_order_of_the_record_is_kept() -> None:
    history = heard((10.0, 2.0), (15.0, 3.0), (15.5, 7.5), stall=(10.5, 15.0))
    assert [event.seq for event in by_node_clocks(history).events] == [0, 1, 2, 3]
