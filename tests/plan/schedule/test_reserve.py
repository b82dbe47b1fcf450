"""Learners that are not there at the start: who may hit them, who may bring them in, and when."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import FaultPlan, FaultSpec, Limits, Outage, Target, Trigger
from chaoslab.plan.schedule import preview, roster_of, schedule
from tests.plan.schedule.drawing import fault, plan_of

ALL = Target(everyone=True, reserve=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    takes_away: ClassVar[bool] = False
    brings_in: ClassVar[bool] = True


def growing(*faults: FaultSpec, limits: Limits | None = None) -> FaultPlan:
    """Four learners and two in reserve."""
    plan = plan_of(*faults, learners=4, limits=limits)
    return replace(plan, training=replace(plan.training, reserve=2))


def join(target: Target = ALL, *, for_s: float | None = None) -> FaultSpec:
    outage = Outage(rest=True) if for_s is None else Outage(seconds=for_s)
    return fault(target, name="join", settings=Join(), outage=outage)


def hit(*faults: FaultSpec, limits: Limits | None = None) -> list[tuple[str, ...]]:
    plan = growing(*faults, limits=limits)
    return [one.targets for one in schedule(plan, roster_of(plan)).injections]


def test_names_go_on_where_the_learners_end() -> None:
    roster = [(node.name, node.role) for node in roster_of(growing())]
    assert roster[-2:] == [("learner-4", "reserve"), ("learner-5", "reserve")]


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (ALL, ("learner-4", "learner-5")),
        (Target(share=0.5, reserve=True), 1),
        (Target(count=1, reserve=True), 1),
        (Target(names=("learner-5",), reserve=True), ("learner-5",)),
        (Target(names=("learner-5",)), ("learner-5",)),
    ],
)
def test_the_reserve_is_chosen_from_as_learners_are(
    target: Target, names: int | tuple[str, ...]
) -> None:
    (found,) = hit(join(target))
    assert set(found) <= {"learner-4", "learner-5"}
    assert found == names or len(found) == names


def test_learners_that_are_not_there_are_never_drawn_as_victims() -> None:
    assert hit(fault(Target(everyone=True))) == [tuple(f"learner-{i}" for i in range(4))]


@pytest.mark.parametrize(
    ("spec", "reserve", "says"),
    [
        (join(), 0, "reserve: 2"),
        (join(Target(names=("learner-1",))), 2, "learner-1 .*reserve: all"),
        (fault(Target(names=("learner-4",))), 2, "learner-4 of the reserve"),
    ],
    ids=["no reserve", "there from the start", "never brought in"],
)
def test_who_cannot_be_brought_in_or_hit_is_refused(
    spec: FaultSpec, reserve: int, says: str
) -> None:
    plan = growing(spec)
    plan = replace(plan, training=replace(plan.training, reserve=reserve))
    with pytest.raises(PlanError, match=says):
        schedule(plan, roster_of(plan))


def test_a_joining_learner_is_under_no_fault_that_the_limits_count() -> None:
    limits = Limits(max_affected=0.25, min_alive=3)
    kill = fault(Target(names=("learner-0",)))
    assert hit(join(for_s=60.0), kill, limits=limits) == [
        ("learner-4", "learner-5"),
        ("learner-0",),
    ]


def test_who_was_brought_in_to_stay_can_be_hit_and_who_leaves_again_cannot() -> None:
    kill = fault(Target(names=("learner-4",)), at=Trigger(time_s=30.0))
    join_s = replace(join(), at=Trigger(time_s=20.0))
    assert hit(join_s, kill) == [("learner-4", "learner-5"), ("learner-4",)]
    with pytest.raises(PlanError, match=r"learner-4 .*'join'"):
        hit(replace(join_s, outage=Outage(seconds=60.0)), kill)


@pytest.mark.parametrize(("for_s", "says"), [(None, "stay"), (20.0, "20s")])
def test_the_preview_says_whether_they_stay(for_s: float | None, says: str) -> None:
    plan = growing(join(for_s=for_s))
    (sentence,) = preview(schedule(plan, roster_of(plan)))
    assert says in sentence
