"""The limits: no instant whose time is known may break one."""

from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Arrivals, FaultSpec, Limits, Outage, Target, Trigger
from chaoslab.plan.schedule import Schedule
from tests.plan.file.catalogue import Kill, Ramp
from tests.plan.schedule.drawing import drawn, fault, plan_of


def named(index: int, name: str, at: Trigger, seconds: float = 5.0, **more: object) -> FaultSpec:
    target = Target(names=(f"learner-{index}",))
    return fault(target, name=name, at=at, outage=Outage(seconds=seconds), **more)  # type: ignore[arg-type]


ALL = Target(everyone=True)
MOST = Target(share=0.75)


@pytest.mark.parametrize(
    ("target", "settings", "limits", "says"),
    [
        (Target(count=3), Kill(), Limits(min_alive=2), "trial.yaml:it: .*`limits.min_alive` is 2"),
        (MOST, Kill(), Limits(max_affected=0.5), "3 of 4 learners"),
        (MOST, Kill(), Limits(max_affected=0.75), None),
        (ALL, Ramp(ratio=1), Limits(min_alive=4), None),  # it takes nobody away
        (ALL, Ramp(ratio=1), Limits(max_affected=0.9), "4 of 4 learners"),
        (Target(syncer=True), Kill(), Limits(min_alive=4, max_affected=0.0), None),
    ],
)
def test_one_injection_is_held_to_the_limits_of_learners(
    target: Target, settings: object, limits: Limits, says: str | None
) -> None:
    plan = plan_of(fault(target, settings=settings), limits=limits)
    with pytest.raises(PlanError, match=says) if says else nullcontext():
        assert drawn(plan).injections


@pytest.mark.parametrize(
    ("first", "second", "is_sure"),
    [
        (Trigger(time_s=10), Trigger(time_s=12), True),
        (Trigger(time_s=12), Trigger(time_s=10), True),
        (Trigger(round=9), Trigger(round=9), True),
        (Trigger(time_s=10), Trigger(time_s=15), False),
        (Trigger(time_s=10), Trigger(round=9), False),
    ],
)
def test_two_planned_faults_count_together_if_they_are_sure_to_overlap(
    first: Trigger, second: Trigger, is_sure: bool
) -> None:
    faults = named(0, "one", first), named(1, "two", second)
    with pytest.raises(PlanError, match="2 learners") if is_sure else nullcontext():
        assert len(drawn(plan_of(*faults, limits=Limits(min_alive=3))).injections) == 2


def test_the_time_after_another_fault_is_known_from_it() -> None:
    limits = Limits(min_alive=3)
    chain = [named(0, "one", Trigger(round=9)), named(1, "two", Trigger(after="one"))]
    assert len(drawn(plan_of(*chain, limits=limits)).injections) == 2
    third = named(2, "three", Trigger(after="one", offset_s=4.0))
    with pytest.raises(PlanError, match="fault 'three'"):
        drawn(plan_of(*chain, third, limits=limits))


def test_a_fault_that_waits_for_one_that_is_never_healed_is_refused() -> None:
    first = fault(Target(count=1), name="one", outage=Outage(rest=True))
    with pytest.raises(PlanError, match="'one'"):
        drawn(plan_of(first, named(1, "two", Trigger(after="one"))))


def test_a_target_cannot_be_hit_while_it_is_still_under_a_fault() -> None:
    faults = named(0, "one", Trigger(time_s=10)), named(0, "two", Trigger(time_s=12))
    with pytest.raises(PlanError, match="fault 'two' on learner-0 at 12 s"):
        drawn(plan_of(*faults))


def test_what_chance_draws_against_a_limit_is_left_out_with_its_reason() -> None:
    sure = named(0, "sure", Trigger(time_s=100), seconds=200)
    arrivals = Arrivals(dist=Arrivals(mtbf_s=1).dist, mtbf_s=40.0)
    often = fault(Target(names=("learner-1",)), name="often", arrivals=arrivals)
    schedule = drawn(plan_of(sure, often, limits=Limits(min_alive=3)))
    assert schedule.dropped
    assert all(95 <= d.time_s < 300 for d in schedule.dropped)
    assert all("`limits.min_alive` is 3" in dropped.reason for dropped in schedule.dropped)
    kept = [i.trigger.time_s or 0 for i in schedule.injections if i.spec == "often"]
    assert kept
    assert not [time_s for time_s in kept if 95 < time_s < 300]


def spans(schedule: Schedule) -> list[tuple[float, float, tuple[str, ...]]]:
    """From when to when, and whom; an end that is the next start but for rounding is that start."""
    starts = [(i.trigger.time_s or 0.0, i) for i in schedule.injections]
    return [(start_s, round(start_s + (i.for_s or 0.0), 6), i.targets) for start_s, i in starts]


@pytest.mark.deep
@given(
    seed=st.integers(0, 2**40),
    mtbf_s=st.floats(5, 100),
    outage_s=st.floats(1, 60),
    least=st.integers(0, 4),
    share=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
)
@settings(max_examples=60)
def test_no_instant_of_a_schedule_breaks_a_limit(
    seed: int, mtbf_s: float, outage_s: float, least: int, share: float
) -> None:
    sure = fault(Target(syncer=True), name="sure", at=Trigger(time_s=1.0))
    each = fault(
        Target(everyone=True), name="each", arrivals=Arrivals(mtbf_s=mtbf_s),
        outage=Outage(seconds=outage_s),
    )  # fmt: skip
    some = fault(
        Target(count=2), name="some", arrivals=Arrivals(per="fleet", mtbf_s=mtbf_s),
        outage=Outage(seconds=outage_s),
    )  # fmt: skip
    limits = Limits(min_alive=least, max_affected=share)
    schedule = drawn(plan_of(sure, each, some, seed=seed, limits=limits))
    for moment_s, _, _ in spans(schedule):
        under = [
            name
            for start_s, end_s, targets in spans(schedule)
            for name in targets
            if start_s <= moment_s < end_s and name != "syncer"
        ]
        assert len(under) == len(set(under)), "nobody is under two faults at once"
        assert 4 - len(under) >= least or not under
        assert len(under) <= share * 4
    assert [i.number for i in schedule.injections] == list(range(len(schedule.injections)))


def test_injections_are_numbered_in_the_order_of_the_plan_and_then_of_time() -> None:
    late = named(3, "late", Trigger(time_s=900))
    often = fault(Target(names=("learner-1",)), name="often", arrivals=Arrivals(mtbf_s=50.0))
    schedule = drawn(plan_of(late, often))
    assert schedule.injections[0].spec == "late"
    assert [i.number for i in schedule.injections] == list(range(len(schedule.injections)))
    times = [i.trigger.time_s or 0 for i in schedule.injections[1:]]
    assert all(before <= after for before, after in pairwise(times))
