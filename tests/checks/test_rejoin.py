"""Rejoin: back in time, contributing again and again, and up to date. Or named."""

from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.rejoin import Rejoin
from chaoslab.core.events import Json, Kind
from tests.histories import Story, half_killed


def test_victims_that_come_back_and_contribute_pass() -> None:
    finding = Rejoin().judge(half_killed(rejoin_s=2.0).end().history())
    assert finding.outcome is Outcome.PASS
    assert (finding.observed, finding.bound, finding.samples) == (2.0, 30.0, 2)
    assert finding.margin == pytest.approx(28 / 30)
    assert finding.numbers["first_contribution_s"] == {
        "learner-1 (injection-0)": 2.0,
        "learner-3 (injection-0)": 2.0,
    }


def test_what_the_cluster_took_to_start_a_learner_is_told_apart() -> None:
    story = half_killed(rejoin_s=2.0).end()
    assert "cluster_start_s" not in Rejoin().judge(story.history()).numbers
    altered = story.altered(Kind.NODE_STARTED, lambda _: {"started_by": "cluster"})
    finding = Rejoin().judge(altered.history())
    assert finding.outcome is Outcome.PASS
    assert finding.numbers["cluster_start_s"] == {
        "learner-3 (injection-0)": pytest.approx(6.0, 0.1)
    }
    assert "job_restarts" not in finding.numbers


def test_a_restart_that_a_job_set_counted_is_its_witness() -> None:
    story = half_killed(rejoin_s=2.0).end()
    told: dict[str, Json] = {
        "node": "learner-3", "incarnation": 1, "action": "job_restart", "at_s": 0.0, "restarts": 1,
    }  # fmt: skip
    altered = story.altered(Kind.NODE_STARTED, lambda _: {"started_by": "cluster"})
    ended = next(
        one
        for one in altered.events
        if one.kind is Kind.NODE_EXITED and one.data["node"] == "learner-3"
    )
    step = next(one for one in altered.events[ended.seq :] if one.kind is Kind.LEARNER_STEP)
    altered.events[step.seq] = replace(step, kind=Kind.ENGINE_REPORTED, data=told)
    finding = Rejoin().judge(altered.history())
    assert finding.numbers["job_restarts"] == {"learner-3 (injection-0)": 1}
    took_s = round(step.time_s - ended.time_s, 3)
    assert finding.numbers["job_restart_s"] == {"learner-3 (injection-0)": pytest.approx(took_s)}


def test_victims_that_are_never_restarted_fail_by_name() -> None:
    story = Story().baseline().kill("learner-1", "learner-3", for_s=None).train(40).prove().end()
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1", "learner-3"))
    assert finding.codes == (Code.NEVER_HEALED,)


def test_a_healed_learner_that_never_contributes_fails() -> None:
    story = Story().baseline().mute("learner-1").kill("learner-1").train(6).heal().train(35)
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-1",))
    assert finding.codes == (Code.NOTHING_ACCEPTED,)


def test_a_process_that_is_up_but_never_steps_fails() -> None:
    story = Story(rejoin_s=99.0).baseline().kill("learner-1").train(6).heal().train(35)
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NO_STEP,))


def test_a_heal_that_starts_no_process_fails() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False).train(35).end()
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.NOT_RESTARTED,))


def test_a_return_after_the_bound_fails_with_its_time() -> None:
    finding = Rejoin(within_s=5.0).judge(half_killed(rejoin_s=8.0).end().history())
    assert (finding.outcome, finding.margin) == (Outcome.FAIL, pytest.approx(-0.6))
    assert finding.codes == (Code.TOO_LATE,)


def test_a_learner_that_contributes_only_once_fails() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(1).mute("learner-1")
    finding = Rejoin().judge(story.train(30).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.TOO_FEW_CONTRIBUTIONS,))


def test_a_run_that_ends_soon_after_the_heal_tells_nothing() -> None:
    story = Story(rejoin_s=9.0).baseline().kill("learner-1").train(6).heal().train(4).end()
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_a_first_contribution_right_before_the_end_tells_nothing() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(1.25).end()
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_a_run_that_ends_before_the_heal_tells_nothing() -> None:
    story = Story().baseline().kill("learner-1", for_s=60).train(6).prove().end()
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_LITTLE_TIME,))


def test_an_absence_cut_short_by_the_next_one_is_not_judged() -> None:
    story = Story(rejoin_s=2.0).baseline().kill("learner-1").train(6).heal().train(1)
    finding = Rejoin().judge(story.kill("learner-1").train(6).heal().train(35).end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 2)


def test_one_that_begins_its_data_anew_fails_although_it_contributes() -> None:
    story = half_killed().train(30).altered(Kind.LEARNER_JOINED, lambda _: {"data_position": 3})
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-3",))
    assert finding.codes == (Code.DATA_REPEATED,)


def test_a_former_self_whose_push_is_accepted_fails() -> None:
    story = Story().baseline().pause("learner-2", for_s=8).train(8).heal().train(35)
    story.altered(
        Kind.PUSH_ACCEPTED, lambda _: {"learner": "learner-2", "incarnation": 1, "epoch": 3}
    )
    finding = Rejoin().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.FORMER_SELF_ACCEPTED,))


def test_a_learner_that_ends_on_old_versions_fails() -> None:
    story = (
        half_killed().end().altered(Kind.LEARNER_FINAL, lambda _: {"versions": {"0": 3, "1": 90}})
    )
    finding = Rejoin().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-3",))
    assert finding.codes == (Code.OUT_OF_DATE,)


def test_without_final_accounts_the_adopted_versions_tell() -> None:
    story = half_killed().end().without(Kind.LEARNER_FINAL).without(Kind.SYNCER_FINAL)
    assert Rejoin().judge(story.history()).outcome is Outcome.PASS
    behind = story.without(
        Kind.LEARNER_ADOPTED, lambda e: e.payload.learner == "learner-3" and e.time_s > 20
    )
    assert Rejoin().judge(behind.history()).outcome is Outcome.FAIL


def test_without_a_victim_there_is_nothing_to_judge() -> None:
    finding = Rejoin().judge(Story().baseline().train(9).end().history())
    assert (finding.outcome, finding.samples) == (Outcome.UNKNOWN, 0)
