"""The check `repairs`: lost slices, replaced in time or not."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.repairs import Repairs
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, fails
from tests.histories import Story


def told(story: Story, node: str, *stages: tuple[float, str], **more: Json) -> Story:
    """Let a repair go through stages, each after so many seconds of training."""
    for after_s, stage in stages:
        story.train(after_s)
        data: dict[str, Json] = {"cause": "preemption", "attempt": 1, **more}
        story.say(Kind.REPAIR_MOVED, node, node=node, stage=stage, **data)
    return story


WHOLE = ((0.0, "begun"), (0.5, "waiting"), (2.0, "coming"), (1.0, "up"), (0.5, "trial"))


CHECK, BACK = Repairs(), (1.5, "back")
CASES = {
    "a repair that takes too long": fails(
        Repairs(within_s=5.0),
        lambda: told(Story().baseline(), "learner-1", *WHOLE, BACK).end(),
        Code.TOO_LATE,
        of=("learner-1",),
    ),
    "a slice that was given up": fails(
        CHECK,
        lambda: told(Story().baseline(), "learner-1", *WHOLE, (0.5, "given_up"), detail="4").end(),
        Code.REPAIR_GIVEN_UP,
    ),
    "a repair that the end cut short": doubts(
        CHECK, lambda: told(Story().baseline(), "learner-1", *WHOLE).end(), Code.TOO_LITTLE_TIME
    ),
    "no lost slice": doubts(CHECK, lambda: Story().baseline().train(5).end(), Code.NO_FAULT),
}


@each(CASES)
def test_repairs(case: Case) -> None:
    case.hold()


def test_repairs_are_told_by_where_their_time_went_and_two_of_one_node_are_two() -> None:
    story = told(Story().baseline(), "learner-1", *WHOLE, BACK)
    story = told(story, "learner-1", *WHOLE, (0.5, "back")).end()
    found = CHECK.judge(story.history())
    assert (found.outcome, found.numbers["longest_queue_s"]) == (Outcome.PASS, pytest.approx(2.5))
    assert found.numbers["longest_creation_s"] == pytest.approx(1.0)
    assert found.numbers["longest_start_s"] == pytest.approx(2.0)
    assert (found.observed, found.samples) == (pytest.approx(5.5), 2)
