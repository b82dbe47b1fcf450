"""The two first answers exclude PASS when they are NO, unless the plan turns them round."""

import pytest

from chaoslab.checks.answer_checks import LearnersRejoin, TrainingContinues
from chaoslab.checks.base import Check, Finding, Outcome
from chaoslab.checks.cleanup import Cleanup
from chaoslab.checks.codes import Code
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.report.wording import answers
from tests.histories import Story, half_killed

STOPPED = TrainingContinues(expected=False)
STAYS_AWAY = LearnersRejoin(expected=False)


def findings(story: Story, *expect: Check) -> dict[str, Finding]:
    """Of the verdict, by check; `verdict` stands for its outcome."""
    verdict = judge(story.history(), expect or (Cleanup(),))
    whole = Finding(check="verdict", outcome=verdict.outcome, reason="")
    return {finding.check: finding for finding in (*verdict.findings, whole)}


def never_back(for_s: float) -> Story:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1", "learner-3").train(6).heal()
    return story.train(for_s).end()


def stopped() -> Story:
    return half_killed().stall(9).end()


def test_answers_that_are_yes_or_that_nobody_knows_add_no_finding() -> None:
    assert set(findings(half_killed().end())) == {"cleanup", "verdict"}
    assert findings(half_killed().end())["verdict"].outcome is Outcome.PASS
    assert set(findings(half_killed().finish("interrupted"))) == {"cleanup", "run", "verdict"}


def test_a_run_in_which_training_did_not_continue_fails_whatever_the_plan_expects() -> None:
    found = findings(stopped())
    assert found["cleanup"].outcome is Outcome.PASS
    assert found["training_continues"].outcome is found["verdict"].outcome is Outcome.FAIL
    assert found["training_continues"].codes == (Code.TRAINING_STOPPED,)
    assert judge(stopped().history(), ()).outcome is Outcome.FAIL


def test_victims_that_had_their_time_and_are_not_back_fail_the_run() -> None:
    found = findings(never_back(31))
    assert found["learners_rejoin"].outcome is found["verdict"].outcome is Outcome.FAIL
    assert found["learners_rejoin"].culprits == ("learner-1", "learner-3")


def test_victims_that_had_too_little_time_are_a_doubt() -> None:
    found = findings(never_back(4))
    assert found["learners_rejoin"].outcome is found["verdict"].outcome is Outcome.UNKNOWN
    assert findings(never_back(12), Rejoin(within_s=10))["learners_rejoin"].outcome is Outcome.FAIL


def test_one_that_never_heard_its_syncer_again_fails_the_run() -> None:
    story = Story().baseline().lose_syncer().stall(6).regain_syncer(without=["learner-2"])
    assert findings(story.train(31).end())["learners_rejoin"].culprits == ("learner-2",)


def test_a_learner_that_the_plan_never_heals_is_no_finding_and_is_named() -> None:
    story = half_killed().kill("learner-0", for_s=None).train(40).prove().end()
    assert findings(story)["verdict"].outcome is Outcome.PASS
    only = Story().baseline().kill("learner-2", for_s=None).train(9).prove().end()
    verdict = judge(only.history(), (Cleanup(),))
    assert verdict.outcome is Outcome.PASS
    _, rejoined, _ = answers(verdict, only.history())
    assert rejoined.word == "none due"
    assert "learner-2" in rejoined.text


@pytest.mark.parametrize(
    ("story", "check", "outcome"),
    [
        (stopped(), STOPPED, Outcome.PASS),
        (half_killed().end(), STOPPED, Outcome.FAIL),
        (half_killed().finish("aborted"), STOPPED, Outcome.UNKNOWN),
        (never_back(31), STAYS_AWAY, Outcome.PASS),
        (half_killed().end(), STAYS_AWAY, Outcome.FAIL),
        (never_back(4), STAYS_AWAY, Outcome.UNKNOWN),
    ],
)
def test_a_plan_that_turns_an_answer_round_expects_it_to_be_no(
    story: Story, check: Check, outcome: Outcome
) -> None:
    found = findings(story, check)
    assert found[check.name].outcome is found["verdict"].outcome is outcome
