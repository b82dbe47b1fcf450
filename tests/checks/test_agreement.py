"""Agreement: published, adopted, held and stored are the same parameters."""

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.histories import Story, half_killed


def test_a_run_that_converges_passes() -> None:
    finding = Agreement().judge(half_killed().end().history())
    assert finding.outcome is Outcome.PASS
    assert finding.numbers["learners_at_the_end"] == 4
    assert finding.samples > 100


def test_a_learner_that_comes_back_with_old_parameters_fails_although_it_adopts_rightly() -> None:
    rotten: dict[str, Json] = {"digests": {"0": "rotten", "1": "rotten"}}
    story = half_killed().end().altered(Kind.LEARNER_JOINED, lambda _: rotten)
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert finding.culprits == ("learner-3",)
    assert finding.codes == (Code.JOINED_WITH_OTHER_STATE,)


def test_a_record_that_does_not_say_what_a_learner_joined_with_is_no_violation() -> None:
    story = half_killed().end().altered(Kind.LEARNER_JOINED, lambda _: {"digests": {}})
    assert Agreement().judge(story.history()).outcome is Outcome.PASS


def test_adopting_something_else_under_the_right_name_fails() -> None:
    story = half_killed().end().altered(Kind.LEARNER_ADOPTED, lambda _: {"digest": "rotten"})
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert finding.culprits == ("learner-3",)
    assert finding.codes == (Code.ADOPTED_OTHER_STATE,)


def test_adopting_a_version_that_was_never_published_fails() -> None:
    story = half_killed().end().without(Kind.ROUND_MERGED, lambda event: event.data["round"] == 9)
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert finding.codes == (Code.NEVER_PUBLISHED,)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"digests": {"0": "rotten", "1": "rotten"}},
            "ended with other parameters than the syncer",
        ),
        ({"versions": {"0": 3, "1": 4}}, "they did not converge"),
    ],
)
def test_a_learner_that_ends_with_something_else_fails(
    change: dict[str, Json], reason: str
) -> None:
    story = half_killed().end().altered(Kind.LEARNER_FINAL, lambda _: change)
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert reason in finding.reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("digests", "is not what it published"),
        ("momentum_digests", "the momentum of fragment 0 changed after its merge"),
        ("stored_digests", "the stored copy of fragment 0 differs from the one in memory"),
        (
            "stored_momentum_digests",
            "the stored momentum of fragment 0 differs from the one in memory",
        ),
    ],
)
def test_a_syncer_at_odds_with_itself_fails(key: str, reason: str) -> None:
    story = half_killed().end()
    story.altered(Kind.SYNCER_FINAL, lambda e: {key: {**getattr(e.payload, key), "0": "rotten"}})
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.FAIL
    assert reason in finding.reason


def test_a_learner_alive_at_the_end_without_a_final_account_is_a_doubt() -> None:
    story = (
        half_killed()
        .end()
        .without(Kind.LEARNER_FINAL, lambda event: event.payload.learner == "learner-2")
    )
    finding = Agreement().judge(story.history())
    assert finding.outcome is Outcome.UNKNOWN
    assert finding.codes == (Code.RECORD_INCOMPLETE,)


def test_a_learner_under_a_fault_at_the_end_owes_no_account() -> None:
    for story in (
        Story().baseline().kill("learner-1", for_s=None).train(9).prove().end(),
        Story().baseline().pause("learner-1", for_s=None).train(9).prove().end(),
    ):
        finding = Agreement().judge(story.history())
        assert finding.outcome is Outcome.PASS
        assert finding.numbers["learners_at_the_end"] == 3


def test_without_the_syncers_final_account_there_is_a_doubt() -> None:
    story = half_killed().end().without(Kind.SYNCER_FINAL)
    assert Agreement().judge(story.history()).outcome is Outcome.UNKNOWN
