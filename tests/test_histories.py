"""The stories that other tests are built on say what real runs say."""

import dataclasses

import pytest

from chaoslab.core.events import Event, Kind
from tests.histories import half_killed
from tests.payload_reading import read_whole


@pytest.fixture(scope="module")
def events() -> list[Event]:
    story = half_killed().pause("learner-0").train(8).heal().train(9).skip("learner-2")
    return story.end(losses=[(100, 3.0)]).events


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
    assert written == {field.name for field in fields}
