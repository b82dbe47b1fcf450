"""Triggers by phase: who is asked to announce it, and a target that is not known before."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.protocol import Phase
from chaoslab.plan.model import Injection, Limits, Pick, Target, Trigger
from chaoslab.plan.schedule import from_lines, preview, to_lines
from tests.plan.schedule.drawing import FAULTS, drawn, fault, plan_of

LEARNERS = ("learner-0", "learner-1", "learner-2", "learner-3")
DONATE = Trigger(phase=Phase.DONATE, wait_s=5.0)


def scheduled(target: Target, at: Trigger, limits: Limits | None = None) -> Injection:
    return drawn(plan_of(fault(target, at=at), limits=limits)).injections[0]


def whoever(**more: object) -> Target:
    return Target(count=1, pick=Pick.AT_PHASE, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("at", "watched"),
    [
        *((Trigger(phase=Phase(phase)), ("syncer",))
          for phase in ("quorum", "before_write", "written", "publish")),
        (DONATE, LEARNERS),
        (Trigger(phase=Phase.PUSH, of="learner-2"), ("learner-2",)),
        (Trigger(round=5), ()),
    ],
)  # fmt: skip
def test_those_are_watched_that_announce_the_point(at: Trigger, watched: tuple[str, ...]) -> None:
    assert scheduled(Target(syncer=True), at).watched == watched


def test_whoever_is_there_is_hit_if_the_target_means_it() -> None:
    injection = scheduled(whoever(exclude=("learner-3",)), DONATE, Limits(protected=("learner-0",)))
    assert (injection.targets, injection.watched) == ((), ("learner-1", "learner-2"))


def test_a_phase_that_nobody_may_announce_is_refused() -> None:
    with pytest.raises(PlanError, match="announce"):
        scheduled(whoever(exclude=LEARNERS), DONATE)


def test_it_reads_back_equal_and_is_said_in_words() -> None:
    schedule = drawn(plan_of(fault(whoever(), at=DONATE)))
    assert from_lines(to_lines(schedule), FAULTS) == schedule
    (sentence,) = preview(schedule)
    assert "at donate" in sentence
