"""Recovery: after the heal rounds and contributions come as often as before, in time."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.recovery import Recovery
from tests.histories import Story, half_killed


def test_the_old_pace_is_back_as_soon_as_the_victims_contribute() -> None:
    finding = Recovery().judge(half_killed(rejoin_s=4.0).end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, pytest.approx(4.0, abs=1.5))
    assert finding.bound == 30.0
    assert finding.numbers["recovered_after_s"] == {"injection-0": finding.observed}
    assert finding.numbers["baseline_rounds_per_s"] == 4.0


def test_a_victim_that_never_contributes_again_fails_by_name() -> None:
    story = Story().baseline().mute("learner-1").kill("learner-1").train(6).heal().train(40)
    finding = Recovery().judge(story.end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.PACE_NOT_REGAINED,)


def test_a_learner_that_does_not_dial_again_fails() -> None:
    story = Story().baseline().cut("learner-2", redials=False).train(6).heal().train(40).end()
    finding = Recovery().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))


def test_a_pace_that_comes_back_too_late_fails_with_its_time() -> None:
    finding = Recovery(within_s=5.0).judge(half_killed(rejoin_s=12.0).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.PACE_NOT_REGAINED,))
    assert finding.margin < 0


def test_rounds_that_stay_rare_fail_even_if_everybody_contributes() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal()
    for _ in range(20):
        story.train(0.25).stall(1.75)
    finding = Recovery().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.PACE_NOT_REGAINED,))


def test_a_fault_that_takes_nobody_away_is_judged_as_well() -> None:
    story = Story().baseline().touch("learner-1", fault="network.latency").train(6).heal()
    finding = Recovery().judge(story.train(9).end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0.0)


def test_a_heal_right_before_the_end_tells_nothing() -> None:
    story = Story().baseline().mute("learner-1").kill("learner-1").train(6).heal().train(9)
    finding = Recovery().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_a_heal_that_the_next_fault_follows_at_once_is_left_out() -> None:
    story = Story(rejoin_s=2.0).baseline().kill("learner-1").train(6).heal().train(1)
    finding = Recovery().judge(story.kill("learner-1").train(6).heal().train(35).end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1)
    recovered = finding.numbers["recovered_after_s"]
    assert recovered["injection-0"] is None


def test_overlapping_faults_are_judged_from_the_last_heal() -> None:
    story = Story().baseline().cut("learner-1", for_s=9).train(3).kill("learner-2").train(6)
    finding = Recovery().judge(story.heal().train(3).heal().train(30).end().history())
    assert finding.samples == 1
    assert list(finding.numbers["recovered_after_s"]) == ["injection-0, injection-1"]  # type: ignore[arg-type]


def test_what_a_lasting_fault_holds_is_not_waited_for() -> None:
    story = Story().baseline().kill("learner-3", for_s=None).train(2).cut("learner-1").train(6)
    story._open.pop(0)
    finding = Recovery().judge(story.heal().train(40).prove().end().history())
    assert finding.outcome is Outcome.PASS


def test_without_a_heal_or_a_baseline_nothing_is_told() -> None:
    no_fault = Story().baseline().train(9).end()
    never = Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    no_baseline = Story().start().kill("learner-1").train(9).heal().train(9).end()
    for story in (no_fault, never, no_baseline):
        assert Recovery().judge(story.history()).outcome is Outcome.UNKNOWN
