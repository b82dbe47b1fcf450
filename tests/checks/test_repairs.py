"""The check `repairs`: lost slices, replaced in time or not."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.repairs import Repairs
from chaoslab.core.events import Json, Kind
from tests.histories import Story


def told(story: Story, node: str, *stages: tuple[float, str], **more: Json) -> Story:
    """Let a repair go through stages, each after so many seconds of training."""
    for after_s, stage in stages:
        story.train(after_s)
        data: dict[str, Json] = {"cause": "preemption", "attempt": 1, **more}
        story.say(Kind.REPAIR_MOVED, node, node=node, stage=stage, **data)
    return story


WHOLE = ((0.0, "begun"), (0.5, "waiting"), (2.0, "coming"), (1.0, "up"), (0.5, "trial"))


def test_repairs_are_told_by_where_their_time_went() -> None:
    story = told(Story().baseline(), "learner-1", *WHOLE, (1.5, "back")).end()
    found = Repairs().judge(story.history())
    assert (found.outcome, found.numbers["longest_queue_s"]) == (Outcome.PASS, pytest.approx(2.5))
    assert found.numbers["longest_creation_s"] == pytest.approx(1.0)
    assert found.numbers["longest_start_s"] == pytest.approx(2.0)
    assert found.observed == pytest.approx(5.5)


def test_a_repair_that_takes_too_long_fails() -> None:
    story = told(Story().baseline(), "learner-1", *WHOLE, (1.5, "back")).end()
    found = Repairs(within_s=5.0).judge(story.history())
    assert (found.outcome, found.codes) == (Outcome.FAIL, (Code.TOO_LATE,))
    assert found.culprits == ("learner-1",)


def test_a_slice_that_was_given_up_fails() -> None:
    stages = (*WHOLE, (0.5, "given_up"))
    story = told(Story().baseline(), "learner-1", *stages, detail="4 failures, 3 are allowed").end()
    found = Repairs().judge(story.history())
    assert (found.outcome, found.codes) == (Outcome.FAIL, (Code.REPAIR_GIVEN_UP,))


def test_a_repair_that_the_end_cut_short_is_unknown() -> None:
    found = Repairs().judge(told(Story().baseline(), "learner-1", *WHOLE).end().history())
    assert (found.outcome, found.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_without_a_lost_slice_there_is_nothing_to_judge() -> None:
    found = Repairs().judge(Story().baseline().train(5).end().history())
    assert (found.outcome, found.codes) == (Outcome.UNKNOWN, (Code.NO_FAULT,))


def test_two_repairs_of_one_node_are_two() -> None:
    story = told(Story().baseline(), "learner-1", *WHOLE, (0.5, "back"))
    story = told(story, "learner-1", *WHOLE, (0.5, "back")).end()
    found = Repairs().judge(story.history())
    assert (found.outcome, found.samples) == (Outcome.PASS, 2)
