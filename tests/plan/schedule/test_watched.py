"""Triggers by phase: who is asked to announce it, and a target that is not known before."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Injection, Limits, Phase, Pick, Target, Trigger
from chaoslab.plan.schedule import from_lines, preview, to_lines
from tests.plan.schedule.drawing import FAULTS, drawn, fault, plan_of

LEARNERS = ("learner-0", "learner-1", "learner-2", "learner-3")
DONATE = Trigger(phase=Phase.DONATE, hold_s=5.0)


def scheduled(target: Target, at: Trigger, limits: Limits | None = None) -> Injection:
    return drawn(plan_of(fault(target, at=at), limits=limits)).injections[0]


def whoever(**more: object) -> Target:
    return Target(count=1, pick=Pick.AT_PHASE, **more)  # type: ignore[arg-type]


def test_the_syncer_announces_its_own_points() -> None:
    for phase in ("quorum", "before_write", "written", "publish"):
        at = Trigger(phase=Phase(phase))
        assert scheduled(Target(count=1), at).watched == ("syncer",)


def test_all_learners_announce_theirs_unless_one_is_named() -> None:
    assert scheduled(Target(syncer=True), DONATE).watched == LEARNERS
    of_one = Trigger(phase=Phase.PUSH, of="learner-2")
    assert scheduled(Target(syncer=True), of_one).watched == ("learner-2",)


def test_nobody_is_watched_for_another_trigger() -> None:
    assert scheduled(Target(count=1), Trigger(round=5)).watched == ()


def test_whoever_is_there_is_hit_if_the_target_means_it() -> None:
    injection = scheduled(whoever(exclude=("learner-3",)), DONATE, Limits(protected=("learner-0",)))
    assert (injection.targets, injection.watched) == ((), ("learner-1", "learner-2"))


def test_a_phase_that_nobody_may_announce_is_refused() -> None:
    with pytest.raises(PlanError, match="announce"):
        scheduled(whoever(exclude=LEARNERS), DONATE)


def test_a_name_that_is_no_learner_is_refused() -> None:
    with pytest.raises(PlanError, match="learner-9"):
        scheduled(Target(count=1), Trigger(phase=Phase.PUSH, of="learner-9"))


def test_it_reads_back_equal_and_is_said_in_words() -> None:
    schedule = drawn(plan_of(fault(whoever(), at=DONATE)))
    assert from_lines(to_lines(schedule), FAULTS) == schedule
    (sentence,) = preview(schedule)
    assert (
        "on the node that announces it when the first learner is at donate, where it waits"
        in sentence
    )
