"""The stories that other tests are built on say what real runs say."""

import dataclasses

import pytest

from chaoslab.core.events import Event, Kind
from chaoslab.core.payload import key
from tests.histories import Story, half_killed
from tests.payload_reading import read_whole


@pytest.fixture(scope="module")
def events() -> list[Event]:
    story = half_killed().pause("learner-0").train(8).heal().train(9).skip("learner-2")
    return story.end(losses=[(100, 3.0)]).events


def test_the_lines_are_numbered_and_in_order_of_time(events: list[Event]) -> None:
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)


def test_every_line_survives_the_journal(events: list[Event]) -> None:
    assert [Event.from_line(event.to_line()) for event in events] == events


def test_every_line_is_read_by_the_payload_of_its_kind(events: list[Event]) -> None:
    for event in events:
        read_whole(event.kind, event.data)


@pytest.mark.parametrize(
    "kind",
    [Kind.LINK_MEASURED, Kind.LEARNER_STARTED, Kind.LEARNER_STEP, Kind.LEARNER_PUSHED,
     Kind.LEARNER_ADOPTED, Kind.PUSH_ACCEPTED],
)  # fmt: skip
def test_lines_of_nodes_have_every_field_that_nodes_write(kind: Kind, events: list[Event]) -> None:
    lines = [event for event in events if event.kind is kind]
    (written,) = {frozenset(line.data) for line in lines}
    fields = dataclasses.fields(lines[0].payload)  # type: ignore[arg-type]  # every payload is one
    assert written == {key(field) for field in fields}


def test_a_story_can_be_cut_and_its_lines_changed() -> None:
    story = Story().baseline().train(2)
    assert len(story.history(until=5).events) == 5
    story.altered(Kind.ROUND_MERGED, lambda _: {"round": 999})
    assert story.last(Kind.ROUND_MERGED).payload.round == 999
    before = len(story.events)
    assert not story.without(Kind.ROUND_MERGED).history().of(Kind.ROUND_MERGED)
    assert len(story.events) == before
