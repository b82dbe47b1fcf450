"""Rejoin: who was brought in takes part, in time, in the run that was there. Or is named."""

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.detection import Detection
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.staleness import Staleness
from chaoslab.checks.survivors import Survivors
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, fails
from tests.histories import Story

NEW = ("learner-4", "learner-5")


def grown(*, for_s: float | None = None, rejoin_s: float = 1.0) -> Story:
    """Two more learners join four; with `for_s` they leave again after so long."""
    story = Story(reserve=NEW, rejoin_s=rejoin_s).baseline().bring_in(*NEW, for_s=for_s)
    return story.train(10).heal().train(10) if for_s else story.train(35)


@pytest.mark.parametrize("for_s", [None, 10.0])
def test_learners_that_join_and_contribute_pass_whether_they_stay_or_leave(
    for_s: float | None,
) -> None:
    finding = Rejoin().judge(grown(for_s=for_s).prove().end().history())
    assert finding.outcome is Outcome.PASS
    assert (finding.observed, finding.bound, finding.samples) == (1.0, 30.0, 2)
    assert finding.numbers["first_contribution_s"] == {
        "learner-4 (injection-0)": 1.0,
        "learner-5 (injection-0)": 1.0,
    }
    assert finding.numbers["state_from"] == {
        "learner-4 (injection-0)": "learner-0",
        "learner-5 (injection-0)": "learner-0",
    }


@pytest.mark.parametrize("for_s", [None, 10.0])
def test_a_sound_growth_and_its_end_trouble_no_other_check(for_s: float | None) -> None:
    history = grown(for_s=for_s).prove().end().history()
    checks = (Survivors(), Ledger(), Agreement(), Staleness(), Goodput(min_share=0.8))
    findings = [check.judge(history) for check in checks]
    assert [one.reason for one in findings if one.outcome is not Outcome.PASS] == []
    assert Detection().judge(history).outcome is not Outcome.FAIL


def test_capacity_grows_by_whoever_holds_everything() -> None:
    numbers = Goodput().judge(grown(for_s=10.0, rejoin_s=5.0).end().history()).numbers
    assert numbers["alive_share"] == pytest.approx(1 + 2 * 5 / (4 * 10))


def test_whoever_came_may_not_leave_before_it_is_asked() -> None:
    crashed = Story(reserve=NEW).baseline().bring_in("learner-4").train(8)
    finding = Survivors().judge(crashed.exit("learner-4", code=1).train(9).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.UNEXPECTED_EXIT,))


def test_a_learner_that_was_never_there_is_missed_by_nobody() -> None:
    story = Story(reserve=NEW).baseline().kill("learner-1").train(6).heal().train(9).end()
    assert Agreement().judge(story.history()).outcome is Outcome.PASS
    assert not set(story.history().learners) & set(NEW)


def test_a_newcomer_that_is_killed_is_a_victim_like_any_other() -> None:
    story = Story(reserve=NEW).baseline().bring_in("learner-4").train(5)
    story.kill("learner-4").train(4).heal(spec="die").train(30)
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 2)
    assert finding.numbers["first_contribution_s"] == {
        "learner-4 (injection-0)": 1.0, "learner-4 (injection-1)": 1.0,
    }  # fmt: skip


def test_a_first_contribution_after_the_bound_fails() -> None:
    finding = Rejoin(within_s=5.0).judge(grown(rejoin_s=8.0).end().history())
    assert finding.outcome is Outcome.FAIL
    assert (finding.observed, finding.margin) == (8.0, pytest.approx(-0.6))
    assert finding.codes == (Code.TOO_LATE,)


def refused() -> Story:
    story = Story(reserve=NEW, rejoin_s=99.0).baseline().bring_in("learner-4")
    why: dict[str, Json] = {"incarnation": 1, "reason": "not on the roster"}
    return story.say(Kind.MEMBER_REFUSED, "syncer", learner="learner-4", **why).train(5).end()


CASES = {
    "a learner that is let in and never heard": fails(
        Rejoin(),
        lambda: (
            Story(reserve=NEW).baseline().bring_in(*NEW).mute("learner-5").train(35).prove().end()
        ),
        Code.NOT_JOINED,
        of=("learner-5",),
    ),
    "a learner that the syncer refuses": fails(Rejoin(), refused, Code.NOT_JOINED),
    "a newcomer whose initial parameters became the run": fails(
        Rejoin(),
        lambda: grown().altered(Kind.LEARNER_JOINED, lambda _: {"source": "initial"}).end(),
        Code.OWN_INITIAL_STATE,
    ),
    "too little time": doubts(
        Rejoin(),
        lambda: Story(reserve=NEW, rejoin_s=9.0).baseline().bring_in("learner-4").train(4).end(),
        Code.TOO_LITTLE_TIME,
    ),
}


@each(CASES)
def test_join(case: Case) -> None:
    case.hold()
