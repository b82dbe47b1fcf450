"""Staleness: who is at work is hardly behind, and who was away catches up in time."""

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.staleness import Staleness
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed


def test_learners_that_adopt_every_version_pass() -> None:
    finding = Staleness().judge(half_killed().end().history())
    assert finding.outcome is Outcome.PASS
    assert finding.observed in (0, 1)
    assert finding.bound == 8
    assert finding.margin > 0.5
    assert finding.samples > 100
    ages = finding.numbers["oldest_at_work_s"]
    assert 0 < float(str(ages["learner-0"])) < 1


def test_a_learner_that_no_longer_adopts_fails_by_name() -> None:
    story = Story().baseline().train(20).end()
    story.without(
        Kind.LEARNER_ADOPTED, lambda e: e.payload.learner == "learner-2" and e.time_s > 12
    )
    finding = Staleness().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.BEHIND,)
    assert finding.margin < 0


def test_whoever_is_cut_off_falls_behind_and_is_excused_until_it_had_time_to_catch_up() -> None:
    story = Story().baseline().cut("learner-1", for_s=10).train(10).heal().train(40).end()
    finding = Staleness().judge(story.history())
    assert finding.outcome is Outcome.PASS
    away = finding.numbers["behind_while_away_rounds"]
    assert int(str(away["learner-1"])) >= 18
    assert finding.observed in (0, 1)


def test_a_learner_that_stays_behind_after_the_heal_fails() -> None:
    story = Story().baseline().cut("learner-1", redials=False).train(6).heal().train(40).end()
    finding = Staleness(within_s=20.0).judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))


def test_training_that_ends_before_a_victim_had_to_be_back_tells_nothing() -> None:
    story = Story().baseline().cut("learner-1", redials=False).train(6).heal().train(9).end()
    finding = Staleness(within_s=20.0).judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_a_learner_that_was_taken_away_for_good_is_not_blamed() -> None:
    story = Story().baseline().kill("learner-1", for_s=None).train(40).prove().end()
    assert Staleness().judge(story.history()).outcome is Outcome.PASS


def test_a_slow_link_that_takes_nobody_away_excuses_nobody() -> None:
    story = Story().baseline().touch("learner-1", fault="network.bandwidth").train(9).heal()
    story.train(20).end()
    story.without(
        Kind.LEARNER_ADOPTED, lambda e: e.payload.learner == "learner-1" and e.time_s < 14
    )
    assert Staleness().judge(story.history()).outcome is Outcome.FAIL


def test_the_bound_is_in_versions_of_one_fragment() -> None:
    story = Story().baseline().train(20).end()
    story.without(
        Kind.LEARNER_ADOPTED, lambda e: e.payload.learner == "learner-2" and 12 < e.time_s < 14
    )
    assert Staleness(max_rounds=8).judge(story.history()).outcome is Outcome.PASS
    assert Staleness(max_rounds=2).judge(story.history()).outcome is Outcome.FAIL


def test_without_baseline_or_adoptions_nothing_is_told() -> None:
    stalled = Story().baseline().stall(9).end()
    assert Staleness().judge(stalled.history()).codes == (Code.TOO_FEW_SAMPLES,)
    for story in (Story().start().train(9), stalled):
        assert Staleness().judge(story.history()).outcome is Outcome.UNKNOWN
