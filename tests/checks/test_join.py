"""Join: who was brought in takes part, in time, in the run that was there. Or is named."""

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.detection import Detection
from chaoslab.checks.goodput import Goodput
from chaoslab.checks.join import Join
from chaoslab.checks.ledger import Ledger
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.staleness import Staleness
from chaoslab.checks.survivors import Survivors
from chaoslab.core.events import Kind
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
    finding = Join().judge(grown(for_s=for_s).prove().end().history())
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


@pytest.mark.parametrize(
    "check", [Survivors(), Ledger(), Agreement(), Staleness(), Goodput(min_share=0.8)]
)
@pytest.mark.parametrize("for_s", [None, 10.0])
def test_a_sound_growth_and_its_end_trouble_no_other_check(
    check: Survivors | Ledger | Agreement | Staleness | Goodput, for_s: float | None
) -> None:
    finding = check.judge(grown(for_s=for_s).prove().end().history())
    assert finding.outcome is Outcome.PASS, finding.reason


def test_capacity_grows_by_whoever_holds_everything() -> None:
    numbers = Goodput().judge(grown(for_s=10.0, rejoin_s=5.0).end().history()).numbers
    assert numbers["alive_share"] == pytest.approx(1 + 2 * 5 / (4 * 10))


def test_whoever_came_may_leave_when_it_is_asked_and_at_no_other_time() -> None:
    history = grown(for_s=10.0).end().history()
    assert Survivors().judge(history).outcome is Outcome.PASS
    assert Detection().judge(history).outcome is not Outcome.FAIL
    crashed = Story(reserve=NEW).baseline().bring_in("learner-4").train(8)
    finding = Survivors().judge(crashed.exit("learner-4", code=1).train(9).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.EXIT_NOT_ASKED,))


def test_a_learner_that_was_never_there_is_missed_by_nobody() -> None:
    history = Story(reserve=NEW).baseline().kill("learner-1").train(6).heal().train(9).end()
    assert Agreement().judge(history.history()).outcome is Outcome.PASS
    assert history.history().learners == tuple(f"learner-{index}" for index in range(4))


def test_a_newcomer_that_is_killed_is_a_victim_like_any_other() -> None:
    story = Story(reserve=NEW).baseline().bring_in("learner-4").train(5)
    story.kill("learner-4").train(4).heal(spec="die").train(30)
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 1)
    assert finding.numbers["first_contribution_s"] == {"learner-4 (injection-1)": 1.0}


def test_a_learner_that_is_let_in_and_never_heard_fails_by_name() -> None:
    story = Story(reserve=NEW).baseline().bring_in(*NEW).mute("learner-5").train(35).prove()
    finding = Join().judge(story.end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-5",))
    assert finding.codes == (Code.NOT_JOINED,)


def test_a_learner_that_the_syncer_refuses_fails_with_its_reason() -> None:
    story = Story(reserve=NEW, rejoin_s=99.0).baseline().bring_in("learner-4")
    story.say(
        Kind.MEMBER_REFUSED,
        "syncer",
        learner="learner-4",
        incarnation=1,
        reason="not on the roster",
    )
    finding = Join().judge(story.train(5).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_JOINED,))


def test_a_first_contribution_after_the_bound_fails() -> None:
    finding = Join(within_s=5.0).judge(grown(rejoin_s=8.0).end().history())
    assert finding.outcome is Outcome.FAIL
    assert (finding.observed, finding.margin) == (8.0, pytest.approx(-0.6))
    assert finding.codes == (Code.TOO_LATE,)


def test_a_newcomer_whose_initial_parameters_became_the_run_fails() -> None:
    story = grown().altered(Kind.LEARNER_JOINED, lambda _: {"source": "initial"})
    finding = Join().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.OWN_INITIAL_STATE,))


def test_whoever_was_given_too_little_time_is_a_doubt() -> None:
    story = Story(reserve=NEW, rejoin_s=9.0).baseline().bring_in("learner-4").train(4)
    finding = Join().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_when_nobody_was_brought_in_there_is_nothing_to_judge() -> None:
    finding = Join().judge(Story().baseline().train(9).end().history())
    assert (finding.outcome, finding.samples) == (Outcome.UNKNOWN, 0)
