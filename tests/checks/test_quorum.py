"""Progress with a quorum: rounds are demanded only while enough members are under no fault."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.quorum import QuorumProgress
from tests.histories import Story, half_killed


def test_a_run_that_keeps_merging_passes_and_tells_the_longest_pause() -> None:
    finding = QuorumProgress(within_s=1.0).judge(half_killed().end().history())
    assert finding.outcome is Outcome.PASS, finding.reason
    assert finding.observed == 0.25
    assert finding.samples > 12


def test_a_pause_with_a_quorum_fails_even_under_a_fault() -> None:
    story = Story().baseline().kill("learner-1").train(1).stall(8).train(1).heal().train(9).end()
    finding = QuorumProgress(quorum=3, within_s=3.0).judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.GAP_TOO_LONG,))


def test_who_was_brought_in_for_good_counts_for_the_quorum() -> None:
    story = Story(learners=2, reserve=("learner-2", "learner-3")).baseline()
    story.bring_in("learner-2", "learner-3").train(6).stall(8).train(5).settle().end()
    assert QuorumProgress(quorum=3, within_s=3.0).judge(story.history()).outcome is Outcome.FAIL


def test_who_was_brought_in_is_harmed_by_other_faults_alone() -> None:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=30.0).train(4)
    story.kill("learner-4", for_s=8.0).train(1).stall(6).train(1).heal(spec="die").train(4)
    finding = QuorumProgress(quorum=5, within_s=3.0).judge(story.end().history())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_a_pause_without_a_quorum_is_allowed() -> None:
    story = Story().baseline().kill("learner-1").train(1).stall(8).train(1).heal().train(9).end()
    finding = QuorumProgress(quorum=4, within_s=3.0).judge(story.history())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_a_pause_after_all_faults_fails() -> None:
    finding = QuorumProgress(quorum=4, within_s=3.0).judge(
        half_killed().train(3).stall(5).train(1).end().history()
    )
    assert finding.outcome is Outcome.FAIL


def test_training_that_never_merges_again_fails_by_its_tail() -> None:
    finding = QuorumProgress(within_s=3.0).judge(half_killed().stall(9).end().history())
    assert finding.outcome is Outcome.FAIL


def test_a_pause_while_a_fault_is_open_on_the_syncer_is_allowed() -> None:
    story = Story().baseline().lose_syncer(for_s=6.0).stall(6).regain_syncer().train(6).end()
    finding = QuorumProgress(within_s=3.0).judge(story.history())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_without_a_baseline_nothing_is_judged() -> None:
    finding = QuorumProgress().judge(Story().start().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.NO_BASELINE,))
