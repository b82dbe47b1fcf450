"""What became of each learner after its return."""

import pytest

from chaoslab.checks.answers import LaterWork, StopReason, afterwards, returns
from tests.histories import Story


def back() -> Story:
    return Story().baseline().kill("learner-1").train(6).heal().train(6)


def since(story: Story) -> LaterWork | None:
    history = story.end().history()
    return afterwards(history, returns(history, within_s=10.0)).get("learner-1")


@pytest.mark.parametrize(
    ("story", "left"),
    [
        (back().train(12), None),
        (back().strike("learner-1").train(12), StopReason.DIED),
        (back().freeze("learner-1").train(6).drop("learner-1").train(14), StopReason.DROPPED),
        (back().mute("learner-1").train(12), StopReason.SILENT),
        (back().kill("learner-1", for_s=None).train(12), None),
    ],
    ids=["works", "dies", "hangs", "is silent", "is taken away for good"],
)
def test_how_it_ended_is_told(story: Story, left: StopReason | None) -> None:
    found = since(story)
    assert found is not None
    assert found.left is left
    assert (found.left_s is None) is (left is None)
    assert found.rounds - found.contributed <= 2 or left is not None


def test_its_rounds_are_counted_from_its_last_return() -> None:
    once, twice = since(back().train(12)), since(back().kill("learner-1").train(6).heal().train(12))
    assert once is not None
    assert twice is not None
    assert once.contributed > twice.contributed > 20


def test_one_that_is_not_back_did_nothing_since() -> None:
    assert since(Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(9)) is None
