"""Events are found by their times in whatever order the record has them."""

import random

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.record.time_index import TimeIndex


def events(*times_s: float) -> list[Event]:
    return [
        Event(seq=seq, time_s=time_s, source="syncer", kind=Kind.ROUND_MERGED)
        for seq, time_s in enumerate(times_s)
    ]


def test_a_stretch_without_events_is_empty() -> None:
    assert TimeIndex(events(1.0, 4.0)).between(2.0, 3.0) == []
    assert TimeIndex(events(1.0, 4.0)).between(3.0, 2.0) == []
    assert TimeIndex(events()).between(0.0, 9.0) == []


@pytest.mark.parametrize("seed", range(20))
def test_times_that_do_not_rise_hide_nothing(seed: int) -> None:
    chance = random.Random(seed)
    known = events(*(round(place / 5 + chance.uniform(-2, 2), 1) for place in range(60)))
    start_s, end_s = sorted(round(chance.uniform(-2, 14), 1) for _ in range(2))
    by_looking_at_each = [event for event in known if start_s <= event.time_s <= end_s]
    assert TimeIndex(known).between(start_s, end_s) == by_looking_at_each


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_later_in_the_record_is_found_up_to_a_time(seed: int) -> None:
    chance = random.Random(seed)
    known = events(*(round(place / 5 + chance.uniform(-2, 2), 1) for place in range(60)))
    since, until_s = chance.choice(known), round(chance.uniform(-2, 14), 1)
    by_looking_at_each = [e for e in known if e.seq > since.seq and e.time_s <= until_s]
    assert list(TimeIndex(known).after(since, until_s)) == by_looking_at_each
