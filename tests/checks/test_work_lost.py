"""Work lost: steps that were made and thrown away, and the effective training time ratio."""

import pytest

from chaoslab.checks.codes import Code
from chaoslab.checks.work_lost import MostLost, work_lost
from chaoslab.core.events import Kind
from tests.checks.cases import Case, doubts, each, fails, passes, rewritten
from tests.histories import Story

CHECK = MostLost(max_lost=0.02)


def killed(*names: str) -> Story:
    return Story().baseline().kill(*names).train(6).heal().train(20).end()


def works_unmerged() -> Story:
    """learner-1 steps for 10 s that nobody merges, and dies."""
    story = Story().baseline().mute("learner-1").train(10).kill("learner-1").train(6)
    return story.heal().train(20).end()


def resumed() -> Story:
    """It resumes from its own state, from where it died."""
    return rewritten(
        works_unmerged(),
        Kind.LEARNER_JOINED,
        lambda event: {"source": "resumed", "step": 10_000},
        lambda event: event.data["learner"] == "learner-1" and event.data["incarnation"] == 2,
    )


CASES = {
    "a run without faults": passes(CHECK, lambda: Story().baseline().train(20).end()),
    "a death between two contributions": passes(CHECK, lambda: killed("learner-1")),
    "a death after work that nobody merged": fails(
        CHECK, works_unmerged, Code.TOO_MUCH_LOST, of=("learner-1",)
    ),
    "one that resumes where it died": passes(CHECK, resumed),
    "no baseline": doubts(CHECK, lambda: Story().start().train(20).end(), Code.NO_BASELINE),
}


@each(CASES)
def test_work_lost(case: Case) -> None:
    case.hold()


def test_steps_seconds_and_shares_agree() -> None:
    nothing, some = work_lost(Story().baseline().train(20).end().history()), None
    assert nothing is not None
    assert (nothing.steps, nothing.seconds, nothing.share) == (0, 0, 0)
    assert nothing.effective_share > 0.95
    some = work_lost(works_unmerged().history())
    assert some is not None
    assert some.seconds == pytest.approx(some.steps * 0.05, rel=0.01)
    assert 150 <= some.steps <= 250
    assert some.effective_share < nothing.effective_share - 0.1
