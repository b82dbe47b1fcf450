"""Recovery: after the heal rounds and contributions come as often as before, in time."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.recovery import Recovery
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed

CHECK = Recovery()


def mute_victim(for_s: float) -> Story:
    story = Story().baseline().mute("learner-1").kill("learner-1").train(6).heal()
    return story.train(for_s).end()


def rare_rounds() -> Story:
    story = Story().baseline().kill("learner-1").train(6).heal()
    for _ in range(20):
        story.train(0.25).stall(1.75)
    return story.end()


def beside_a_lasting_fault() -> Story:
    story = Story().baseline().kill("learner-3", for_s=None).train(2).cut("learner-1").train(6)
    return story.heal(spec="cut").train(40).prove().end()


CASES = {
    "a victim that never contributes again": fails(
        CHECK, lambda: mute_victim(40), Code.PACE_NOT_REGAINED, of=("learner-1",)
    ),
    "a learner that does not dial again": fails(
        CHECK,
        lambda: Story().baseline().cut("learner-2", redials=False).train(6).heal().train(40).end(),
        of=("learner-2",),
    ),
    "rounds that stay rare": fails(CHECK, rare_rounds, Code.PACE_NOT_REGAINED),
    "a heal right before the end": doubts(CHECK, lambda: mute_victim(9), Code.TOO_LITTLE_TIME),
    "what a lasting fault holds is not waited for": passes(CHECK, beside_a_lasting_fault),
    "no fault": doubts(CHECK, lambda: Story().baseline().train(9).end()),
    "no heal": doubts(
        CHECK, lambda: Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    ),
    "no baseline": doubts(
        CHECK, lambda: Story().start().kill("learner-1").train(9).heal().train(9).end()
    ),
}


@each(CASES)
def test_recovery(case: Case) -> None:
    case.hold()


def test_the_old_pace_is_back_as_soon_as_the_victims_contribute() -> None:
    finding = Recovery().judge(half_killed(rejoin_s=4.0).end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, pytest.approx(4.0, abs=1.5))
    assert finding.bound == 30.0
    assert finding.numbers["recovered_after_s"] == {"injection-0": finding.observed}
    assert finding.numbers["baseline_rounds_per_s"] == 4.0


def test_a_pace_that_comes_back_too_late_fails_with_its_time() -> None:
    finding = Recovery(within_s=5.0).judge(half_killed(rejoin_s=12.0).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.PACE_NOT_REGAINED,))
    assert finding.margin < 0


def test_a_fault_that_takes_nobody_away_is_judged_as_well() -> None:
    story = Story().baseline().touch("learner-1", fault="network.latency").train(6).heal()
    finding = Recovery().judge(story.train(9).end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0.0)


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
