"""Cleanup: everything that was begun has ended, and nothing is left over."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.cleanup import Cleanup
from chaoslab.checks.codes import Code
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def test_a_run_that_healed_and_ended_everything_passes() -> None:
    finding = Cleanup().judge(half_killed().end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1 + 7)


def test_a_fault_for_the_rest_of_the_run_need_not_be_healed() -> None:
    story = Story().baseline().kill("learner-1", for_s=None).train(9).prove().end()
    assert Cleanup().judge(story.history()).outcome is Outcome.PASS


def test_a_heal_that_was_never_begun_or_never_finished_fails() -> None:
    finding = Cleanup().judge(Story().baseline().kill("learner-1").train(9).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_HEALED,))
    broken = half_killed().end().without(Kind.FAULT_HEALED)
    assert Cleanup().judge(broken.history()).codes == (Code.NOT_HEALED,)


def test_a_process_that_never_exited_fails_by_name() -> None:
    story = half_killed().end().without(Kind.NODE_EXITED, lambda e: e.payload.node == "learner-2")
    finding = Cleanup().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))


def test_residue_fails_even_in_a_record_that_breaks_off() -> None:
    story = half_killed().say(
        Kind.RESIDUE_FOUND, what="process 4711", where="this machine", remedy="chaoslab heal"
    )
    finding = Cleanup().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.LEFT_OVER,))


def test_a_record_that_breaks_off_is_unknown() -> None:
    assert Cleanup().judge(half_killed().history()).outcome is Outcome.UNKNOWN
