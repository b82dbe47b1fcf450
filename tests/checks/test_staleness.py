"""Staleness: who is at work is hardly behind, and who was away catches up in time."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.staleness import Staleness
from chaoslab.core.events import Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed

CHECK, SOON = Staleness(), Staleness(within_s=20.0)


def deaf(story: Story, name: str, since_s: float, until_s: float = 1000.0) -> Story:
    """It adopts nothing in between."""
    return story.without(
        Kind.LEARNER_ADOPTED,
        lambda e: e.payload.learner == name and since_s < e.time_s < until_s,
    )


def cut_for_good(for_s: float) -> Story:
    return Story().baseline().cut("learner-1", redials=False).train(6).heal().train(for_s).end()


def slow_link() -> Story:
    story = Story().baseline().touch("learner-1", fault="network.bandwidth").train(9).heal()
    return deaf(story.train(20).end(), "learner-1", -1, 14)


CASES = {
    "a learner that no longer adopts": fails(
        CHECK,
        lambda: deaf(Story().baseline().train(20).end(), "learner-2", 12),
        Code.BEHIND,
        of=("learner-2",),
    ),
    "a learner that stays behind after the heal": fails(
        SOON, lambda: cut_for_good(40), Code.BEHIND, of=("learner-1",)
    ),
    "training that ends before a victim had to be back": doubts(
        SOON, lambda: cut_for_good(9), Code.TOO_LITTLE_TIME
    ),
    "a learner that was taken away for good": passes(
        CHECK,
        lambda: Story().baseline().kill("learner-1", for_s=None).train(40).prove().end(),
    ),
    "a slow link that takes nobody away": fails(CHECK, slow_link),
    "a few versions of one fragment within the bound": passes(
        Staleness(max_rounds=8),
        lambda: deaf(Story().baseline().train(20).end(), "learner-2", 12, 14),
    ),
    "a few versions of one fragment beyond the bound": fails(
        Staleness(max_rounds=2),
        lambda: deaf(Story().baseline().train(20).end(), "learner-2", 12, 14),
    ),
    "nothing is merged": doubts(
        CHECK, lambda: Story().baseline().stall(9).end(), Code.TOO_FEW_SAMPLES
    ),
    "no baseline": doubts(CHECK, lambda: Story().start().train(9)),
}


@each(CASES)
def test_staleness(case: Case) -> None:
    case.hold()


def test_learners_that_adopt_every_version_pass() -> None:
    finding = CHECK.judge(half_killed().end().history())
    assert (finding.outcome, finding.bound) == (Outcome.PASS, 8)
    assert finding.observed in (0, 1)
    assert finding.margin > 0.5
    assert finding.samples > 100
    ages = finding.numbers["oldest_at_work_s"]
    assert 0 < float(str(ages["learner-0"])) < 1


def test_whoever_is_cut_off_falls_behind_and_is_excused_until_it_had_time_to_catch_up() -> None:
    story = Story().baseline().cut("learner-1", for_s=10).train(10).heal().train(40).end()
    finding = CHECK.judge(story.history())
    assert finding.outcome is Outcome.PASS
    away = finding.numbers["behind_while_away_rounds"]
    assert int(str(away["learner-1"])) >= 18
    assert finding.observed in (0, 1)
