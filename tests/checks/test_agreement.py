"""Agreement: published, adopted, held and stored are the same parameters."""

import pytest

from chaoslab.checks.agreement import Agreement
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, Tell, doubts, each, fails, passes
from tests.histories import Story, half_killed

CHECK = Agreement()
ROTTEN: dict[str, Json] = {"digests": {"0": "rotten", "1": "rotten"}}


def altered(kind: Kind, **facts: Json) -> Tell:
    return lambda: half_killed().end().altered(kind, lambda _: facts)


CASES = {
    "a learner that comes back with old parameters": fails(
        CHECK,
        altered(Kind.LEARNER_JOINED, **ROTTEN),
        Code.JOINED_WITH_OTHER_STATE,
        of=("learner-3",),
    ),
    "a record that does not say what it joined with": passes(
        CHECK, altered(Kind.LEARNER_JOINED, digests={})
    ),
    "adopting something else under the right name": fails(
        CHECK,
        altered(Kind.LEARNER_ADOPTED, digest="rotten"),
        Code.ADOPTED_OTHER_STATE,
        of=("learner-3",),
    ),
    "adopting a version that was never published": fails(
        CHECK,
        lambda: half_killed().end().without(Kind.ROUND_MERGED, lambda e: e.data["round"] == 9),
        Code.NEVER_PUBLISHED,
    ),
    "a learner alive at the end without a final account": doubts(
        CHECK,
        lambda: (
            half_killed()
            .end()
            .without(Kind.LEARNER_FINAL, lambda event: event.payload.learner == "learner-2")
        ),
        Code.RECORD_INCOMPLETE,
    ),
    "no final account of the syncer": doubts(
        CHECK, lambda: half_killed().end().without(Kind.SYNCER_FINAL)
    ),
}


@each(CASES)
def test_agreement(case: Case) -> None:
    case.hold()


@pytest.mark.parametrize(
    ("tell", "learners"),
    [
        (lambda: half_killed().end(), 4),
        (lambda: Story().baseline().kill("learner-1", for_s=None).train(9).prove().end(), 3),
        (lambda: Story().baseline().pause("learner-1", for_s=None).train(9).prove().end(), 3),
    ],
    ids=["all", "one is dead", "one is held"],
)
def test_all_that_are_under_no_fault_at_the_end_agree(tell: Tell, learners: int) -> None:
    finding = CHECK.judge(tell().history())
    assert (finding.outcome, finding.numbers["learners_at_the_end"]) == (Outcome.PASS, learners)
    assert finding.samples > 50


def at_odds(key: str) -> Tell:
    return lambda: (
        half_killed()
        .end()
        .altered(Kind.SYNCER_FINAL, lambda e: {key: {**getattr(e.payload, key), "0": "rotten"}})
    )


@pytest.mark.parametrize(
    ("tell", "code"),
    [
        (altered(Kind.LEARNER_FINAL, **ROTTEN), Code.ENDED_WITH_OTHER_STATE),
        (altered(Kind.LEARNER_FINAL, versions={"0": 3, "1": 4}), Code.NOT_CONVERGED),
        (at_odds("digests"), Code.STATE_CHANGED),
        (at_odds("momentum_digests"), Code.MOMENTUM_CHANGED),
        (at_odds("stored_digests"), Code.STORED_STATE_DIFFERS),
        (at_odds("stored_momentum_digests"), Code.STORED_STATE_DIFFERS),
    ],
    ids=["end", "version", "parameters", "momentum", "stored", "stored momentum"],
)
def test_who_ends_with_something_else_fails(tell: Tell, code: Code) -> None:
    finding = CHECK.judge(tell().history())
    assert finding.outcome is Outcome.FAIL
    assert code in finding.codes
