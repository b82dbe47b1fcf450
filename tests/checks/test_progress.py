"""Continuity: rounds go on, or the gap is found, timed and put beside the open injections."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.progress import Continuity
from chaoslab.core.events import Kind
from chaoslab.core.units import Relative
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed

CHECK = Continuity()
CASES = {
    "a gap while the victims come back": fails(
        CHECK,
        lambda: (
            Story(rejoin_s=4.0).baseline().kill("learner-1").train(6).heal().stall(3).train(9).end()
        ),
        Code.GAP_TOO_LONG,
    ),
    "a gap after the fault": fails(
        CHECK, lambda: half_killed().stall(4).train(3).end(), Code.GAP_TOO_LONG
    ),
    "a hiccup in the baseline hides no gap": fails(
        CHECK,
        lambda: (
            half_killed()
            .stall(10)
            .train(9)
            .end()
            .altered(Kind.BASELINE_MEASURED, lambda _: {"gap_s_max": 20.0})
        ),
        Code.GAP_TOO_LONG,
    ),
    "a run that stops merging for good": fails(
        CHECK, lambda: half_killed().stall(10).end(), Code.GAP_TOO_LONG
    ),
    "a run that never merged again after the baseline": fails(
        CHECK, lambda: Story().baseline().kill("learner-1").stall(6).heal().stall(9).end()
    ),
    "a pause within a bound in seconds": passes(
        Continuity(max_gap=2.0), lambda: half_killed().stall(1).train(1).end()
    ),
    "a pause beyond a bound in seconds": fails(
        Continuity(max_gap=0.5), lambda: half_killed().stall(1).train(1).end()
    ),
    "no baseline": doubts(CHECK, lambda: Story().start().train(9).end()),
    "no baseline and a bound in seconds": doubts(
        Continuity(max_gap=2.0), lambda: Story().start().train(9).end()
    ),
    "too few rounds under faults": doubts(
        CHECK,
        lambda: Story().baseline().touch("learner-1").heal().train(9).end(),
        Code.TOO_FEW_SAMPLES,
    ),
    "the time until the victims are back is under faults": passes(
        CHECK, lambda: Story(rejoin_s=2.0).baseline().kill("learner-1").heal().train(9).end()
    ),
    "no faults": passes(CHECK, lambda: Story().baseline().train(9).end()),
}


@each(CASES)
def test_continuity(case: Case) -> None:
    case.hold()


def test_a_run_that_keeps_merging_through_the_fault_passes() -> None:
    finding = CHECK.judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 0.25)
    assert finding.margin == pytest.approx(0.75 / (1 - finding.best))
    assert finding.samples >= 24


def test_a_gap_under_faults_fails_between_its_rounds_and_names_the_injections() -> None:
    story = Story().baseline().kill("learner-1", spec="one").kill("learner-2", spec="other")
    history = story.train(1).stall(3).train(2).heal().train(9).end().history()
    finding = CHECK.judge(history)
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.GAP_TOO_LONG,))
    assert finding.observed == pytest.approx(3.25)
    assert finding.margin < 0
    before, after = finding.evidence
    assert history.events[after].time_s - history.events[before].time_s == pytest.approx(3.25)
    assert all(part in finding.reason for part in ("`one`", "`other`", "learner-2"))


def test_the_bound_is_relative_to_the_baseline_but_never_below_the_floor() -> None:
    history = half_killed().end().history()
    tight = Continuity(max_gap=Relative(factor=3.0), floor_s=0.0).judge(history)
    assert (tight.outcome, tight.bound) == (Outcome.PASS, 0.75)
    assert Continuity(max_gap=Relative(factor=3.0), floor_s=2.0).judge(history).bound == 2.0
