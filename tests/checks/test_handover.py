"""Handover: who is let in gets the state of the training, or the check names who waited in vain."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.handover import Handover
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def waiting(for_s: float) -> Story:
    """A member is let in, is sent to a donor, and waits."""
    story = Story().baseline()
    story.say(
        Kind.MEMBER_JOINED, "syncer", learner="learner-1", incarnation=1, epoch=50,
        source="donor", donor="learner-0", members=4,
    )  # fmt: skip
    return story.train(for_s)


def test_learners_that_come_back_and_are_helped_pass() -> None:
    finding = Handover().judge(half_killed().end().history())
    assert finding.outcome is Outcome.PASS, finding.reason
    assert finding.samples == 2


def test_a_member_that_waits_in_vain_fails() -> None:
    finding = Handover(within_s=5.0).judge(waiting(6.0).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_HELPED,))


def test_a_wait_within_the_bound_passes() -> None:
    finding = Handover(within_s=5.0).judge(waiting(4.0).end().history())
    assert finding.outcome is Outcome.PASS, finding.reason
    assert finding.observed == pytest.approx(4.0, abs=0.5)


@pytest.mark.parametrize("node", ["learner-1", "syncer"])
def test_time_under_a_fault_does_not_count(node: str) -> None:
    story = waiting(4.0).touch(node, for_s=4.0).train(4.0).heal().train(4.0)
    finding = Handover(within_s=5.0).judge(story.end().history())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_a_fault_on_another_node_excuses_nothing() -> None:
    story = waiting(2.0).touch("learner-0", for_s=2.0).train(2.0).heal().train(2.0)
    assert Handover(within_s=5.0).judge(story.end().history()).outcome is Outcome.FAIL


@pytest.mark.parametrize("for_s", [None, 20.0])
def test_who_was_brought_in_and_waits_in_vain_fails(for_s: float | None) -> None:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=for_s).train(12)
    helped = Handover(within_s=5.0).judge(story.history())
    assert helped.outcome is Outcome.PASS, helped.reason
    alone = story.without(Kind.LEARNER_JOINED, lambda one: one.data["learner"] == "learner-4")
    finding = Handover(within_s=5.0).judge(alone.end().history())
    assert (finding.codes, finding.culprits) == ((Code.NOT_HELPED,), ("learner-4",))


def test_a_membership_that_ends_meanwhile_is_judged_by_its_wait() -> None:
    story = waiting(6.0).say(
        Kind.MEMBER_LEFT, "syncer", learner="learner-1", incarnation=1, epoch=50,
        reason="no_progress", members=3,
    )  # fmt: skip
    assert Handover(within_s=5.0).judge(story.train(2.0).end().history()).outcome is Outcome.FAIL


def test_where_nobody_needs_the_state_nothing_is_judged() -> None:
    finding = Handover().judge(Story().baseline().train(5).end().history())
    assert finding.outcome is Outcome.UNKNOWN
