"""Findings about speeds, where learners keep a step time and where the machine cannot carry it."""

import pytest

from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.pacing import lost_share
from chaoslab.checks.progress import Continuity
from chaoslab.checks.recovery import Recovery
from chaoslab.checks.survivors import Survivors
from tests.histories import Story
from tests.model_training import STEPS, TICK_S

ALL = (0.0, 1000.0)
OF_SPEED: tuple[Check, ...] = (Continuity(), Goodput(), Recovery(), Survivors())


def told(story: Story) -> Story:
    """One learner dies for six seconds; what the story has begun goes on to the end."""
    return story.kill("learner-1").train(6).heal().train(35).settle().end()


def judged(check: Check, story: Story) -> Finding:
    return check.judge(story.history())


@pytest.mark.parametrize("check", OF_SPEED, ids=lambda check: check.name)
def test_learners_that_keep_their_step_time_are_judged(check: Check) -> None:
    assert judged(check, told(Story().baseline(is_paced=True))).outcome is Outcome.PASS


@pytest.mark.parametrize("check", OF_SPEED, ids=lambda check: check.name)
def test_a_baseline_that_lost_periods_says_nothing_about_speeds(check: Check) -> None:
    story = Story()
    story.overrun().baseline(is_paced=True).overrun(lost=0)
    finding = judged(check, told(story))
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.STEP_TIME_NOT_KEPT,))
    assert finding.margin is None


@pytest.mark.parametrize("check", OF_SPEED, ids=lambda check: check.name)
def test_without_a_step_time_nothing_was_lost(check: Check) -> None:
    story = Story().overrun().baseline()
    assert judged(check, told(story)).outcome is Outcome.PASS
    assert lost_share(story.history(), [ALL]) is None


@pytest.mark.parametrize("check", [Goodput(), Survivors()], ids=lambda check: check.name)
def test_periods_lost_under_the_fault_make_a_speed_unknown(check: Check) -> None:
    story = Story().baseline(is_paced=True).kill("learner-1").overrun("learner-0", lost=4).train(6)
    finding = judged(check, story.overrun(lost=0).heal().train(20).settle().end())
    assert finding.codes == (Code.STEP_TIME_NOT_KEPT,)


def test_periods_lost_where_nothing_is_judged_do_not_count() -> None:
    story = Story().baseline(is_paced=True).kill("learner-1").train(6).heal().overrun().train(20)
    assert judged(Goodput(), story.settle().end()).outcome is Outcome.PASS


def test_a_few_lost_periods_do_not_count() -> None:
    story = Story().baseline(is_paced=True).kill("learner-1").overrun("learner-0").train(0.5)
    story.overrun(lost=0).train(5.5).heal().train(20).settle().end()
    assert 0 < (lost_share(story.history(), [(5.0, 11.0)]) or 0) < 0.05
    assert judged(Survivors(), story).outcome is Outcome.PASS


def test_a_survivor_slowed_by_the_machine_is_unknown_and_one_slowed_by_itself_fails() -> None:
    def slowed(lost: int) -> Finding:
        story = Story().baseline(is_paced=True).kill("learner-1").slow("learner-2", 2.0)
        story.overrun("learner-0", "learner-2", lost=lost).train(6).overrun(lost=0)
        return judged(Survivors(), story.heal().train(9).settle().end())

    assert slowed(lost=4).outcome is Outcome.UNKNOWN
    assert slowed(lost=4).codes == (Code.SLOWED, Code.STEP_TIME_NOT_KEPT)
    assert slowed(lost=0).outcome is Outcome.FAIL


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


def test_a_failure_that_is_not_one_of_speed_stands() -> None:
    story = Story().overrun().baseline(is_paced=True).kill("learner-1").freeze("learner-2").train(6)
    finding = judged(Survivors(), story.heal().train(9).settle().end())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.STOOD_STILL,))


def test_a_gap_with_lost_periods_is_unknown_and_one_without_fails() -> None:
    def stalled(lost: int) -> Finding:
        story = Story().baseline(is_paced=True).kill("learner-1").overrun(lost=lost).stall(6)
        return judged(Continuity(), story.overrun(lost=0).heal().train(9).settle().end())

    assert stalled(lost=4).codes == (Code.GAP_TOO_LONG, Code.STEP_TIME_NOT_KEPT)
    assert stalled(lost=0).outcome is Outcome.FAIL


def test_a_bound_in_seconds_does_not_rest_on_the_step_time() -> None:
    story = Story().overrun().baseline(is_paced=True)
    assert judged(Continuity(max_gap=2.0), told(story)).outcome is Outcome.PASS


def test_what_victims_lose_is_no_sign_of_a_full_machine() -> None:
    story = Story().baseline(is_paced=True).touch("learner-1").overrun("learner-1", lost=9).train(6)
    story.overrun(lost=0).heal().train(9).settle().end()
    assert lost_share(story.history(), [ALL]) == 0.0
    assert judged(Goodput(), story).outcome is Outcome.PASS


def test_the_share_is_that_of_all_periods() -> None:
    story = Story().overrun().baseline(is_paced=True)
    assert lost_share(story.history(), [ALL]) == pytest.approx(1 / (STEPS + 1))
    assert lost_share(story.history(), [(0.0, TICK_S), (0.0, TICK_S)]) == pytest.approx(
        1 / (STEPS + 1)
    )
    assert lost_share(story.history(), []) is None
