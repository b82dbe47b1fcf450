"""Rejoin: back in time, contributing again and again, and up to date. Or named."""

from dataclasses import replace

import pytest

from chaoslab.checks.absence import absences
from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.rejoin import Rejoin
from chaoslab.core.events import Json, Kind
from tests.checks.cases import Case, doubts, each, fails, passes
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory

CHECK = Rejoin()


def one_dies(rejoin_s: float = 1.0, *, restarts: bool = True) -> Story:
    return Story(rejoin_s=rejoin_s).baseline().kill("learner-1").train(6).heal(restarts=restarts)


def accepted_as_before(story: Story) -> Story:
    """The last push is that of a life of learner-2 which is over."""
    former: dict[str, Json] = {"learner": "learner-2", "incarnation": 1, "epoch": 3}
    return story.altered(Kind.PUSH_ACCEPTED, lambda _: former)


def without_accounts() -> Story:
    return half_killed().end().without(Kind.LEARNER_FINAL).without(Kind.SYNCER_FINAL)


CASES = {
    "victims that the plan never gives back": doubts(
        CHECK,
        lambda: (
            Story().baseline().kill("learner-1", "learner-3", for_s=None).train(40).prove().end()
        ),
        Code.NO_FAULT,
    ),
    "one that is back, beside one that never is": passes(
        CHECK,
        lambda: one_dies().train(9).kill("learner-3", for_s=None).train(20).prove().end(),
    ),
    "one that is back, and is then taken for good": passes(
        CHECK,
        lambda: one_dies().train(9).kill("learner-1", for_s=None).train(20).prove().end(),
    ),
    "one that is taken for good before it can be back": doubts(
        CHECK,
        lambda: one_dies(9.0).train(3).kill("learner-1", for_s=None).train(20).prove().end(),
        Code.TOO_LITTLE_TIME,
    ),
    "a former self that is never healed, and whose push is accepted": fails(
        CHECK,
        lambda: accepted_as_before(
            Story().baseline().pause("learner-2", for_s=None).train(35).prove()
        ).end(),
        Code.FORMER_SELF_ACCEPTED,
    ),
    "a healed learner that never contributes": fails(
        CHECK,
        lambda: (
            Story().baseline().mute("learner-1").kill("learner-1").train(6).heal().train(35).end()
        ),
        Code.NOTHING_ACCEPTED,
        of=("learner-1",),
    ),
    "a process that is up but never steps": fails(
        CHECK, lambda: one_dies(99.0).train(35).end(), Code.NO_STEP
    ),
    "a heal that starts no process": fails(
        CHECK, lambda: one_dies(restarts=False).train(35).end(), Code.NOT_RESTARTED
    ),
    "a learner that contributes only once": fails(
        CHECK,
        lambda: one_dies().train(1).mute("learner-1").train(30).end(),
        Code.TOO_FEW_CONTRIBUTIONS,
    ),
    "a run that ends soon after the heal": doubts(
        CHECK, lambda: one_dies(9.0).train(4).end(), Code.TOO_LITTLE_TIME
    ),
    "a first contribution right before the end": doubts(
        CHECK, lambda: one_dies().train(1.25).end(), Code.TOO_LITTLE_TIME
    ),
    "a run that ends before the heal": doubts(
        CHECK,
        lambda: Story().baseline().kill("learner-1", for_s=60).train(6).prove().end(),
        Code.TOO_LITTLE_TIME,
    ),
    "one that was not back when it was killed again": doubts(
        CHECK,
        lambda: (
            Story()
            .baseline()
            .kill("learner-1")
            .train(6)
            .heal(restarts=False)
            .train(9)
            .kill("learner-1")
            .train(3)
            .heal()
            .train(20)
            .end()
        ),
        Code.TOO_LITTLE_TIME,
    ),
    "a former self whose push is accepted": fails(
        CHECK,
        lambda: accepted_as_before(
            Story().baseline().pause("learner-2", for_s=8).train(8).heal().train(35)
        ).end(),
        Code.FORMER_SELF_ACCEPTED,
    ),
    "a learner that ends on old versions": fails(
        CHECK,
        lambda: (
            half_killed()
            .end()
            .altered(Kind.LEARNER_FINAL, lambda _: {"versions": {"0": 3, "1": 90}})
        ),
        Code.OUT_OF_DATE,
        of=("learner-3",),
    ),
    "without final accounts the adopted versions tell": passes(CHECK, without_accounts),
    "without final accounts, adopted versions that are old": fails(
        CHECK,
        lambda: without_accounts().without(
            Kind.LEARNER_ADOPTED, lambda e: e.payload.learner == "learner-3" and e.time_s > 20
        ),
        Code.OUT_OF_DATE,
    ),
    "no victim": doubts(CHECK, lambda: Story().baseline().train(9).end()),
}


@each(CASES)
def test_rejoin(case: Case) -> None:
    case.hold()


def test_victims_that_come_back_and_contribute_pass_with_their_times() -> None:
    story = half_killed(rejoin_s=2.0).end()
    finding = CHECK.judge(story.history())
    assert (finding.outcome, finding.margin) == (Outcome.PASS, pytest.approx(28 / 30))
    assert (finding.observed, finding.bound, finding.samples) == (2.0, 30.0, 2)
    assert finding.numbers["first_contribution_s"] == {
        "learner-1 (injection-0)": 2.0,
        "learner-3 (injection-0)": 2.0,
    }
    assert "cluster_start_s" not in finding.numbers
    late = Rejoin(within_s=1.25).judge(story.history())
    assert (late.outcome, late.margin) == (Outcome.FAIL, pytest.approx(-0.6))
    assert late.codes == (Code.TOO_LATE,)


def test_what_the_cluster_took_and_a_restart_that_a_job_set_counted_are_told_apart() -> None:
    story = half_killed(rejoin_s=2.0).end()
    story.altered(Kind.NODE_STARTED, lambda _: {"started_by": "cluster"})
    numbers = CHECK.judge(story.history()).numbers
    assert numbers["cluster_start_s"] == {"learner-3 (injection-0)": pytest.approx(6.0, 0.1)}
    assert "job_restarts" not in numbers
    told: dict[str, Json] = {
        "node": "learner-3", "incarnation": 1, "action": "job_restart", "restarts": 1,
    }  # fmt: skip
    ended = next(
        e for e in story.events if e.kind is Kind.NODE_EXITED and e.data["node"] == "learner-3"
    )
    step = next(one for one in story.events[ended.seq :] if one.kind is Kind.LEARNER_STEP)
    story.events[step.seq] = replace(step, kind=Kind.ENGINE_REPORTED, data=told)
    numbers = CHECK.judge(story.history()).numbers
    assert numbers["job_restarts"] == {"learner-3 (injection-0)": 1}
    took_s = round(step.time_s - ended.time_s, 3)
    assert numbers["job_restart_s"] == {"learner-3 (injection-0)": pytest.approx(took_s)}


def test_an_absence_cut_short_by_the_next_one_is_not_judged() -> None:
    story = one_dies(2.0).train(1).kill("learner-1").train(6).heal().train(35)
    finding = CHECK.judge(story.end().history())
    assert (finding.outcome, finding.samples) == (Outcome.PASS, 2)


def test_workers_beside_the_one_that_was_killed_are_none_that_were_hit() -> None:
    story = ScriptStory(workers=3).start("launcher").train(20).measure().kill("worker-1")
    story.exit("worker-0").start("worker-0").heal("worker-1", at=20).train(30)
    found = {one.learner: (one.was_hit, one.has_run_on) for one in absences(story.history())}
    assert found == {
        "worker-0": (False, False), "worker-1": (True, False), "worker-2": (False, True),
    }  # fmt: skip
