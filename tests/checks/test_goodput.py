"""Goodput: the pace under faults against what was left of the learners."""

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.core.events import Kind
from tests.checks.cases import Case, Tell, doubts, each, fails, passes
from tests.histories import Story, half_killed


def test_half_of_the_learners_commit_about_half_of_the_tokens_and_pass() -> None:
    finding = Goodput().judge(half_killed().end().history())
    assert (finding.outcome, finding.numbers["alive_share"]) == (Outcome.PASS, 0.5)
    assert 0.8 < float(str(finding.observed)) < 1.1
    assert finding.numbers["under_faults_s"] == 6.0


def test_raw_tokens_stand_beside_the_committed_ones() -> None:
    numbers = Goodput().judge(half_killed().end().history()).numbers
    assert numbers["raw_tokens_per_s"] == pytest.approx(4000.0)  # two learners, 500 a tick
    assert numbers["committed_tokens_per_s"] == pytest.approx(2000.0)  # half overlaps adoptions


ALL = tuple(f"learner-{number}" for number in range(4))
CHECK = Goodput()


def overlapping() -> Story:
    story = Story().baseline().kill("learner-1").train(3).kill("learner-2").train(3)
    return story.heal().train(3).heal().train(20)


def between_two_deaths() -> Story:
    story = Story().baseline().kill("learner-1", for_s=12).train(3).restart("learner-1").train(4)
    story = story.strike("learner-1").train(3).restart("learner-1").train(2)
    return story.heal(restarts=False).train(9)


@pytest.mark.parametrize(
    ("tell", "share"),
    [
        (lambda: Story().baseline().touch("learner-1").train(6).heal().train(9), 1),
        (overlapping, 1 - 12 / 36),
        (
            lambda: (
                Story()
                .baseline()
                .kill("learner-1", for_s=9)
                .train(3)
                .restart("learner-1")
                .train(6)
                .heal(restarts=False)
                .train(9)
            ),
            1 - 3 / 36,
        ),
        (between_two_deaths, 1 - 6 / 48),
        (lambda: Story().baseline().cut("learner-1", "learner-2").train(6).heal().train(9), 0.5),
        (lambda: Story().baseline().reset(*ALL).train(6).heal().train(9), 1),
    ],
    ids=["nobody away", "overlap", "restart", "two deaths", "cut", "reset"],
)
def test_capacity_is_that_of_the_learners_that_are_there(tell: Tell, share: float) -> None:
    numbers = CHECK.judge(tell().end().history()).numbers
    assert numbers["alive_share"] == pytest.approx(share, abs=1e-3)


CASES = {
    "a fault that takes nobody away": passes(
        CHECK, lambda: Story().baseline().touch("learner-1").train(6).heal().train(9).end()
    ),
    "connections that were reset": passes(
        CHECK, lambda: Story().baseline().reset(*ALL).train(6).heal().train(9).end()
    ),
    "survivors that commit less than their share": fails(
        CHECK,
        lambda: (
            Story()
            .baseline()
            .kill("learner-1", "learner-3")
            .train(2)
            .stall(4)
            .heal()
            .train(9)
            .end()
        ),
        Code.PACE_TOO_LOW,
    ),
    "nothing is committed under a long fault": fails(
        CHECK, lambda: Story().baseline().kill("learner-1").stall(6).heal().train(9).end()
    ),
    **{
        f"{outcome} while the syncer was away": doubts(
            CHECK,
            lambda outcome=outcome: (
                Story().baseline().lose_syncer(for_s=8.0).stall(6).finish(outcome)
            ),
            Code.TOO_LITTLE_TIME,
        )
        for outcome in ("interrupted", "aborted")
    },
    "training that ended without its syncer": fails(
        CHECK, lambda: Story().baseline().lose_syncer(for_s=8.0).stall(12).settle().end()
    ),
    "faults too short for a pace": doubts(
        CHECK,
        lambda: Story().baseline().kill("learner-1").train(1).heal().train(9).end(),
        Code.TOO_LITTLE_TIME,
    ),
    "a baseline that is noisier than the bound has room": doubts(
        Goodput(min_share=0.9),
        lambda: (
            Story()
            .baseline()
            .kill("learner-1")
            .train(6)
            .heal()
            .train(9)
            .end()
            .altered(Kind.BASELINE_MEASURED, lambda _: {"variation": 0.3})
        ),
        Code.BASELINE_NOT_STEADY,
    ),
    "no fault": doubts(CHECK, lambda: Story().baseline().train(9).end()),
    "no baseline": doubts(CHECK, lambda: Story().start().kill("learner-1").train(9).heal().end()),
    "nobody left": doubts(
        CHECK,
        lambda: Story(learners=1).baseline().kill("learner-0").train(6).heal().train(9).end(),
    ),
}


@each(CASES)
def test_goodput(case: Case) -> None:
    case.hold()


def test_more_than_the_learners_that_are_left_can_do_fails_an_upper_bound() -> None:
    story = Story().baseline(is_paced=True).kill("learner-1", "learner-3", spec="half").train(6)
    story.heal().train(9).end()
    share = float(str(Goodput().judge(story.history()).observed))
    assert Goodput(max_share=1.1).judge(story.history()).outcome is Outcome.PASS

    story.altered(Kind.BASELINE_MEASURED, lambda e: {"tokens_per_s": e.payload.tokens_per_s / 2})
    finding = Goodput(max_share=1.1).judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.PACE_TOO_HIGH,))
    assert (finding.observed, finding.bound) == (pytest.approx(2 * share, abs=1e-3), 1.1)
    assert finding.margin == pytest.approx((1.1 - 2 * share) / (1.1 - 1), abs=1e-2)
    assert Goodput().judge(story.history()).outcome is Outcome.PASS


def test_the_nearer_of_two_bounds_is_told() -> None:
    history = half_killed().end().history()
    share = float(str(Goodput().judge(history).observed))
    assert Goodput(min_share=0.1, max_share=1.05).judge(history).bound == 1.05
    assert Goodput(min_share=share - 0.001, max_share=5.0).judge(history).bound == share - 0.001
