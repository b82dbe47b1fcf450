"""Continuity: rounds go on, or the gap is found, timed and put beside the open injections."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.progress import Continuity
from chaoslab.core.units import Relative
from tests.histories import Story, half_killed


def test_a_run_that_keeps_merging_through_the_fault_passes() -> None:
    finding = Continuity().judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0.25)
    assert finding.margin == pytest.approx(0.75)
    assert finding.samples >= 24


def test_a_gap_under_a_fault_fails_and_names_the_injection() -> None:
    story = Story().baseline().kill("learner-1", spec="one-dies").train(1).stall(3).train(2)
    finding = Continuity().judge(story.heal().train(9).end().history())
    assert (finding.outcome, finding.observed) == (Outcome.FAIL, pytest.approx(3.25))
    assert finding.margin < 0
    assert finding.codes == (Code.GAP_TOO_LONG,)


def test_the_evidence_of_a_gap_are_the_rounds_on_both_sides() -> None:
    story = Story().baseline().kill("learner-1").train(1).stall(3).train(1)
    history = story.heal().train(9).end().history()
    before, after = Continuity().judge(history).evidence
    assert history.events[after].time_s - history.events[before].time_s == pytest.approx(3.25)


def test_a_gap_while_the_victims_come_back_says_so() -> None:
    story = Story(rejoin_s=4.0).baseline().kill("learner-1").train(6).heal().stall(3).train(9)
    finding = Continuity().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.GAP_TOO_LONG,))


def test_every_fault_that_was_open_is_named() -> None:
    story = Story().baseline().kill("learner-1", spec="one").kill("learner-2", spec="other")
    finding = Continuity().judge(story.train(1).stall(9).end().history())
    assert all(part in finding.reason for part in ("`one`", "`other`", "learner-2"))


def test_a_gap_after_the_fault_says_that_no_fault_was_open() -> None:
    finding = Continuity().judge(half_killed().stall(4).train(3).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.GAP_TOO_LONG,))


def test_a_run_that_stops_merging_for_good_fails_by_its_tail() -> None:
    finding = Continuity().judge(half_killed().stall(10).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.GAP_TOO_LONG,))


def test_a_run_that_never_merged_again_after_the_baseline_fails() -> None:
    story = Story().baseline().kill("learner-1").stall(6).heal().stall(9).end()
    assert Continuity().judge(story.history()).outcome is Outcome.FAIL


def test_the_bound_is_relative_to_the_baseline_but_never_below_the_floor() -> None:
    history = half_killed().end().history()
    tight = Continuity(max_gap=Relative(factor=3.0), floor_s=0.0).judge(history)
    assert (tight.outcome, tight.bound) == (Outcome.PASS, 0.75)
    assert Continuity(max_gap=Relative(factor=3.0), floor_s=2.0).judge(history).bound == 2.0


def test_the_bound_may_be_a_plain_duration() -> None:
    story = half_killed().stall(1).train(1).end()
    assert Continuity(max_gap=2.0).judge(story.history()).outcome is Outcome.PASS
    assert Continuity(max_gap=0.5).judge(story.history()).outcome is Outcome.FAIL


def test_without_a_measured_baseline_nothing_is_known() -> None:
    history = Story().start().train(9).end().history()
    assert Continuity().judge(history).outcome is Outcome.UNKNOWN
    assert Continuity(max_gap=2.0).judge(history).outcome is Outcome.UNKNOWN


def test_too_few_rounds_under_faults_tell_nothing() -> None:
    story = Story().baseline().touch("learner-1").heal().train(9).end()
    finding = Continuity().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,))


def test_the_time_until_the_victims_are_back_counts_as_under_faults() -> None:
    story = Story(rejoin_s=2.0).baseline().kill("learner-1").heal().train(9).end()
    assert Continuity().judge(story.history()).outcome is Outcome.PASS


def test_a_run_without_faults_is_judged_over_all_its_rounds() -> None:
    assert Continuity().judge(Story().baseline().train(9).end().history()).outcome is Outcome.PASS
