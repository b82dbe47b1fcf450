"""Agreement: published, adopted, held and stored are the same parameters."""

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.histories import Story, half_killed


def test_a_run_that_converges_passes() -> None:
    finding = Agreement().judge(half_killed().end().history())
    assert (finding.outcome, finding.numbers["learners_at_the_end"]) == (Outcome.PASS, 4)
    assert finding.samples > 100


def test_a_learner_that_comes_back_with_old_parameters_fails_although_it_adopts_rightly() -> None:
    rotten: dict[str, Json] = {"digests": {"0": "rotten", "1": "rotten"}}
    story = half_killed().end().altered(Kind.LEARNER_JOINED, lambda _: rotten)
    finding = Agreement().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-3",))
    assert finding.codes == (Code.JOINED_WITH_OTHER_STATE,)


def test_a_record_that_does_not_say_what_a_learner_joined_with_is_no_violation() -> None:
    story = half_killed().end().altered(Kind.LEARNER_JOINED, lambda _: {"digests": {}})
    assert Agreement().judge(story.history()).outcome is Outcome.PASS


def test_adopting_something_else_under_the_right_name_fails() -> None:
    story = half_killed().end().altered(Kind.LEARNER_ADOPTED, lambda _: {"digest": "rotten"})
    finding = Agreement().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-3",))
    assert finding.codes == (Code.ADOPTED_OTHER_STATE,)


def test_adopting_a_version_that_was_never_published_fails() -> None:
    story = half_killed().end().without(Kind.ROUND_MERGED, lambda event: event.data["round"] == 9)
    finding = Agreement().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NEVER_PUBLISHED,))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"digests": {"0": "rotten", "1": "rotten"}}, Code.ENDED_WITH_OTHER_STATE),
        ({"versions": {"0": 3, "1": 4}}, Code.NOT_CONVERGED),
    ],
)
def test_a_learner_that_ends_with_something_else_fails(change: dict[str, Json], code: Code) -> None:
    story = half_killed().end().altered(Kind.LEARNER_FINAL, lambda _: change)
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert code in finding.codes


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("digests", Code.STATE_CHANGED),
        ("momentum_digests", Code.MOMENTUM_CHANGED),
        ("stored_digests", Code.STORED_STATE_DIFFERS),
        ("stored_momentum_digests", Code.STORED_STATE_DIFFERS),
    ],
)
def test_a_syncer_at_odds_with_itself_fails(key: str, code: Code) -> None:
    story = half_killed().end()
    story.altered(Kind.SYNCER_FINAL, lambda e: {key: {**getattr(e.payload, key), "0": "rotten"}})
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert code in finding.codes


def test_a_learner_alive_at_the_end_without_a_final_account_is_a_doubt() -> None:
    story = (
        half_killed()
        .end()
        .without(Kind.LEARNER_FINAL, lambda event: event.payload.learner == "learner-2")
    )
    finding = Agreement().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.RECORD_INCOMPLETE,))


def test_a_learner_under_a_fault_at_the_end_owes_no_account() -> None:
    for story in (
        Story().baseline().kill("learner-1", for_s=None).train(9).prove().end(),
        Story().baseline().pause("learner-1", for_s=None).train(9).prove().end(),
    ):
        finding = Agreement().judge(story.history())
        assert (finding.outcome, finding.numbers["learners_at_the_end"]) == (Outcome.PASS, 3)


def test_without_the_syncers_final_account_there_is_a_doubt() -> None:
    story = half_killed().end().without(Kind.SYNCER_FINAL)
    assert Agreement().judge(story.history()).outcome is Outcome.UNKNOWN
