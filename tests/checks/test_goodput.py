"""Goodput: the pace under faults against what was left of the learners."""

from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.goodput import Goodput
from chaoslab.core.events import Event, Kind
from chaoslab.record.journal import History
from tests.histories import Story, half_killed


def test_half_of_the_learners_commit_about_half_of_the_tokens_and_pass() -> None:
    finding = Goodput().judge(half_killed().end().history())
    assert (finding.outcome, finding.numbers["alive_share"]) == (Outcome.PASS, 0.5)
    assert 0.8 < float(str(finding.observed)) < 1.1
    assert finding.numbers["under_faults_s"] == 6.0


def test_survivors_that_commit_less_than_their_share_fail() -> None:
    story = Story().baseline().kill("learner-1", "learner-3").train(2).stall(4)
    finding = Goodput().judge(story.heal().train(9).end().history())
    assert finding.outcome is Outcome.FAIL
    assert finding.margin < 0
    assert finding.codes == (Code.PACE_TOO_LOW,)


def test_a_run_that_commits_nothing_under_a_long_fault_fails() -> None:
    story = Story().baseline().kill("learner-1").stall(6).heal().train(9).end()
    finding = Goodput().judge(story.history())
    assert (finding.outcome, finding.observed) == (Outcome.FAIL, 0.0)


def test_raw_tokens_stand_beside_the_committed_ones() -> None:
    numbers = Goodput().judge(half_killed().end().history()).numbers
    assert numbers["raw_tokens_per_s"] == pytest.approx(4000.0)  # two learners, 500 a tick
    assert numbers["committed_tokens_per_s"] == pytest.approx(2000.0)  # half overlaps adoptions


def test_a_fault_that_takes_nobody_away_leaves_all_capacity() -> None:
    story = Story().baseline().touch("learner-1").train(6).heal().train(9).end()
    finding = Goodput().judge(story.history())
    assert (finding.numbers["alive_share"], finding.outcome) == (1.0, Outcome.PASS)


def test_overlapping_faults_count_their_time_once() -> None:
    story = Story().baseline().kill("learner-1").train(3).kill("learner-2").train(3)
    finding = Goodput().judge(story.heal().train(3).heal().train(20).end().history())
    assert finding.numbers["under_faults_s"] == 9.0
    assert finding.numbers["alive_share"] == pytest.approx(1 - 12 / 36, abs=1e-4)


def test_a_restart_gives_the_capacity_back_before_the_heal() -> None:
    story = Story().baseline().kill("learner-1", for_s=9).train(3).restart("learner-1").train(6)
    finding = Goodput().judge(story.heal(restarts=False).train(9).end().history())
    assert finding.numbers["alive_share"] == pytest.approx(1 - 3 / 36, abs=1e-4)


def test_what_a_victim_does_between_two_deaths_of_one_fault_is_capacity() -> None:
    story = Story().baseline().kill("learner-1", for_s=12).train(3).restart("learner-1").train(4)
    story = story.strike("learner-1").train(3).restart("learner-1").train(2).heal(restarts=False)
    finding = Goodput().judge(story.train(9).end().history())
    assert finding.numbers["alive_share"] == pytest.approx(1 - 6 / 48, abs=1e-3)


def test_a_link_that_was_cut_takes_its_learner_s_share_away() -> None:
    story = Story().baseline().cut("learner-1", "learner-2").train(6).heal().train(9).end()
    assert Goodput().judge(story.history()).numbers["alive_share"] == pytest.approx(0.5)


def test_connections_that_were_reset_leave_all_capacity() -> None:
    names = [f"learner-{number}" for number in range(4)]
    story = Story().baseline().reset(*names).train(6).heal().train(9).end()
    finding = Goodput().judge(story.history())
    assert (finding.numbers["alive_share"], finding.outcome) == (1.0, Outcome.PASS)


@pytest.mark.parametrize("outcome", ["interrupted", "aborted"])
def test_a_run_that_was_cut_short_while_the_syncer_was_held_is_unknown(outcome: str) -> None:
    story = Story().baseline().lose_syncer(for_s=8.0).stall(6)
    finding = Goodput().judge(story.finish(outcome, "by a signal").history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_training_that_ended_without_its_syncer_has_lost_that_time() -> None:
    story = Story().baseline().lose_syncer(for_s=8.0).stall(12).settle().end()
    assert Goodput().judge(story.history()).outcome is Outcome.FAIL


def test_faults_too_short_for_a_pace_are_unknown() -> None:
    story = Story().baseline().kill("learner-1").train(1).heal().train(9).end()
    finding = Goodput().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_no_fault_no_baseline_or_nobody_left_are_unknown() -> None:
    no_fault = Story().baseline().train(9).end()
    no_baseline = Story().start().kill("learner-1").train(9).heal().end()
    nobody = Story(learners=1).baseline().kill("learner-0").train(6).heal().train(9).end()
    for story in (no_fault, no_baseline, nobody):
        assert Goodput().judge(story.history()).outcome is Outcome.UNKNOWN


def test_more_than_the_learners_that_are_left_can_do_fails_an_upper_bound() -> None:
    story = Story().baseline(is_paced=True).kill("learner-1", "learner-3", spec="half").train(6)
    history = story.heal().train(9).end().history()
    share = float(str(Goodput().judge(history).observed))
    assert Goodput(max_share=1.1).judge(history).outcome is Outcome.PASS

    def faster(event: Event) -> Event:
        return replace(event, data={**event.data, "tokens_per_s": event.payload.tokens_per_s / 2})

    events = [faster(e) if e.kind is Kind.BASELINE_MEASURED else e for e in history.events]
    finding = Goodput(max_share=1.1).judge(History(events))
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.PACE_TOO_HIGH,))
    assert (finding.observed, finding.bound) == (pytest.approx(2 * share, abs=1e-3), 1.1)
    assert finding.margin == pytest.approx((1.1 - 2 * share) / 1.1, abs=1e-3)
    assert Goodput().judge(History(events)).outcome is Outcome.PASS


def test_the_nearer_of_two_bounds_is_told() -> None:
    history = half_killed().end().history()
    share = float(str(Goodput().judge(history).observed))
    assert Goodput(min_share=0.1, max_share=1.01).judge(history).bound == 1.01
    assert Goodput(min_share=share - 0.001, max_share=5.0).judge(history).bound == share - 0.001
