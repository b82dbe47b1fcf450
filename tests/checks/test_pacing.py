"""Findings about speeds, where learners keep a step time and where the machine cannot carry it."""

import pytest

from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.pacing import lost_share
from chaoslab.checks.progress import Continuity
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.survivors import Survivors
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story
from tests.model_training import STEPS, TICK_S

ALL = (0.0, 1000.0)
OF_SPEED: tuple[Check, ...] = (Continuity(), Goodput(), Recovery(), Survivors())


def told(story: Story) -> Story:
    """One learner dies for six seconds; what the story has begun goes on to the end."""
    return story.kill("learner-1").train(6).heal().train(35).settle().end()


def judged(check: Check, story: Story) -> Finding:
    return check.judge(story.history())


def lost_in_the_baseline() -> Story:
    story = Story()
    story.overrun().baseline(is_paced=True).overrun(lost=0)
    return story


@pytest.mark.parametrize("check", OF_SPEED, ids=lambda check: check.name)
def test_a_speed_is_judged_unless_the_baseline_lost_periods_of_a_step_time(check: Check) -> None:
    assert judged(check, told(Story().baseline(is_paced=True))).outcome is Outcome.PASS
    assert judged(check, told(Story().overrun().baseline())).outcome is Outcome.PASS
    finding = judged(check, told(lost_in_the_baseline()))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.STEP_TIME_NOT_KEPT,))
    assert finding.margin is None


def paced() -> Story:
    return Story().baseline(is_paced=True).kill("learner-1")


def late_survivor() -> Story:
    story = paced().overrun("learner-0", lost=4).train(6)
    return story.overrun(lost=0).heal().train(20).settle().end()


def slowed(lost: int) -> Story:
    story = paced().slow("learner-2", 2.0).overrun("learner-0", "learner-2", lost=lost).train(6)
    return story.overrun(lost=0).heal().train(9).settle().end()


def stalled(lost: int) -> Story:
    return paced().overrun(lost=lost).stall(6).overrun(lost=0).heal().train(9).settle().end()


def frozen() -> Story:
    story = Story().overrun().baseline(is_paced=True).kill("learner-1").freeze("learner-2").train(6)
    return story.heal().train(9).settle().end()


CASES = {
    "periods lost under the fault, goodput": doubts(
        Goodput(), late_survivor, Code.STEP_TIME_NOT_KEPT
    ),
    "periods lost under the fault, survivors": doubts(
        Survivors(), late_survivor, Code.STEP_TIME_NOT_KEPT
    ),
    "periods lost where nothing is judged": passes(
        Goodput(), lambda: paced().train(6).heal().overrun().train(20).settle().end()
    ),
    "a survivor slowed by the machine": doubts(
        Survivors(), lambda: slowed(lost=4), Code.SLOWED, Code.STEP_TIME_NOT_KEPT
    ),
    "a survivor slowed by itself": fails(Survivors(), lambda: slowed(lost=0)),
    "a failure that is not one of speed": fails(Survivors(), frozen, Code.STALLED),
    "a gap with lost periods": doubts(
        Continuity(), lambda: stalled(lost=4), Code.GAP_TOO_LONG, Code.STEP_TIME_NOT_KEPT
    ),
    "a gap without lost periods": fails(Continuity(), lambda: stalled(lost=0)),
    "a bound in seconds": passes(
        Continuity(max_gap=2.0), lambda: told(Story().overrun().baseline(is_paced=True))
    ),
}


@each(CASES)
def test_speeds(case: Case) -> None:
    case.hold()


def test_a_few_lost_periods_do_not_count() -> None:
    story = Story().baseline(is_paced=True).kill("learner-1").overrun("learner-0").train(0.5)
    story.overrun(lost=0).train(5.5).heal().train(20).settle().end()
    assert 0 < (lost_share(story.history(), [(5.0, 11.0)]) or 0) < 0.05
    assert judged(Survivors(), story).outcome is Outcome.PASS


def test_a_survivor_that_is_slow_while_the_others_are_late_is_unknown() -> None:
    def slowed(others_late_s: float) -> Finding:
        story = Story().baseline(is_paced=True).kill("learner-1").slow("learner-2", 1.25)
        story.slow("learner-0", 1.25).train(others_late_s)
        story.slow("learner-0", 1.0).train(6 - others_late_s).slow("learner-2", 1.0)
        assert lost_share(story.history(), [ALL]) == 0
        return judged(Survivors(max_slowdown=1.1), story.heal().train(9).settle().end())

    assert slowed(0).codes == (Code.SLOWED,)
    assert slowed(1).codes == (Code.SLOWED,)
    busy = slowed(2)
    assert (busy.outcome, busy.codes) == (Outcome.UNKNOWN, (Code.STEP_TIME_NOT_KEPT,))


def test_what_victims_lose_is_no_sign_of_a_full_machine() -> None:
    story = Story().baseline(is_paced=True).touch("learner-1").overrun("learner-1", lost=9).train(6)
    story.overrun(lost=0).heal().train(9).settle().end()
    assert lost_share(story.history(), [ALL]) == 0.0


def test_the_share_is_that_of_all_periods() -> None:
    assert lost_share(Story().overrun().baseline().history(), [ALL]) is None
    story = Story().overrun().baseline(is_paced=True)
    assert lost_share(story.history(), [ALL]) == pytest.approx(1 / (STEPS + 1))
    assert lost_share(story.history(), [(0.0, TICK_S), (0.0, TICK_S)]) == pytest.approx(
        1 / (STEPS + 1)
    )
    assert lost_share(story.history(), []) is None
