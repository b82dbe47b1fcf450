"""Handover: who is let in gets the state of the training, or the check names who waited in vain."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.handover import Handover
from chaoslab.core.events import Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed


def waiting(for_s: float) -> Story:
    """A member is let in, is sent to a donor, and waits."""
    story = Story().baseline()
    story.say(
        Kind.MEMBER_JOINED, "syncer", learner="learner-1", incarnation=1, epoch=50,
        source="donor", donor="learner-0", members=4,
    )  # fmt: skip
    return story.train(for_s)


def under_a_fault(node: str, waited_s: float) -> Story:
    story = waiting(waited_s).touch(node, for_s=waited_s).train(waited_s).heal()
    return story.train(waited_s).end()


def newcomer(for_s: float | None, *, is_helped: bool) -> Story:
    story = Story(reserve=("learner-4",)).baseline().bring_in("learner-4", for_s=for_s).train(12)
    if is_helped:
        return story
    return story.without(Kind.LEARNER_JOINED, lambda one: one.data["learner"] == "learner-4").end()


def sent_elsewhere() -> Story:
    """After a while it is told that the syncer helps it, but the syncer does not."""
    story = waiting(4.0)
    joined = story.last(Kind.MEMBER_JOINED)
    joined_again = {**joined.data, "source": "syncer", "donor": None}
    return story.say(Kind.MEMBER_JOINED, "syncer", **joined_again).train(2.0)


def dropped_meanwhile() -> Story:
    story = waiting(6.0).say(
        Kind.MEMBER_LEFT, "syncer", learner="learner-1", incarnation=1, epoch=50,
        reason="no_progress", members=3,
    )  # fmt: skip
    return story.train(2.0).end()


SOON = Handover(within_s=5.0)
CASES = {
    "a member that waits in vain": fails(SOON, lambda: waiting(6.0).end(), Code.NOT_HELPED),
    "a member that waits in vain, first for one and then for another": fails(
        SOON, lambda: sent_elsewhere().end(), Code.NOT_HELPED
    ),
    "time under a fault": passes(SOON, lambda: under_a_fault("learner-1", 4.0)),
    "time under a fault on the syncer": passes(SOON, lambda: under_a_fault("syncer", 4.0)),
    "a fault on another node": fails(SOON, lambda: under_a_fault("learner-0", 2.0)),
    "who was brought in and is helped": passes(SOON, lambda: newcomer(None, is_helped=True)),
    "who was brought in for good and waits in vain": fails(
        SOON, lambda: newcomer(None, is_helped=False), Code.NOT_HELPED, of=("learner-4",)
    ),
    "who was brought in for a time and waits in vain": fails(
        SOON, lambda: newcomer(20.0, is_helped=False), Code.NOT_HELPED, of=("learner-4",)
    ),
    "a membership that ends meanwhile": fails(SOON, dropped_meanwhile),
    "nobody needs the state": doubts(Handover(), lambda: Story().baseline().train(5).end()),
}


@each(CASES)
def test_handover(case: Case) -> None:
    case.hold()


def test_a_wait_within_the_bound_passes_with_its_time() -> None:
    assert Handover().judge(half_killed().end().history()).samples == 2
    finding = SOON.judge(waiting(4.0).end().history())
    assert finding.outcome is Outcome.PASS, finding.reason
    assert finding.observed == pytest.approx(4.0, abs=0.5)
