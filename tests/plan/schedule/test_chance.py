"""Chance: repeatable, independent, and with the means that the plan names."""

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoslab.core.errors import PlanError
from chaoslab.plan.model import Arrivals, Distribution, FaultSpec, Outage, Target, Trigger
from chaoslab.plan.schedule import Schedule
from chaoslab.plan.schedule.chance import gap_s, outage_s, stream
from tests.plan.schedule.drawing import drawn, fault, plan_of

DRAWS = 20_000

ARRIVALS = st.builds(
    Arrivals,
    per=st.sampled_from(["target", "fleet"]),
    dist=st.sampled_from([Distribution.EXPONENTIAL, Distribution.WEIBULL]),
    mtbf_s=st.floats(20, 200),
    shape=st.floats(0.5, 3),
)
OUTAGES = st.builds(
    Outage,
    dist=st.sampled_from([Distribution.EXPONENTIAL, Distribution.LOGNORMAL, Distribution.WEIBULL]),
    seconds=st.floats(1, 50),
)
TARGETS = st.sampled_from([Target(everyone=True), Target(count=1), Target(share=0.5)])


@st.composite
def stochastic(draw: st.DrawFn, name: str) -> FaultSpec:
    return fault(draw(TARGETS), name=name, arrivals=draw(ARRIVALS), outage=draw(OUTAGES))


def story(schedule: Schedule, spec: str) -> list[tuple[object, ...]]:
    """What chance drew for one fault, kept or dropped, without the numbers."""
    kept = [(i.trigger.time_s, i.targets) for i in schedule.injections if i.spec == spec]
    return sorted(kept + [(d.time_s, d.targets) for d in schedule.dropped if d.spec == spec])


@given(one=stochastic("one"), two=stochastic("two"), seed=st.integers(0, 2**40))
@settings(max_examples=15)
def test_a_seed_gives_one_schedule_and_another_fault_never_moves_what_the_first_one_draws(
    one: FaultSpec, two: FaultSpec, seed: int
) -> None:
    sure = fault(Target(names=("learner-0",)), name="sure")
    both = drawn(plan_of(sure, one, two, seed=seed))
    assert both == drawn(plan_of(sure, one, two, seed=seed))
    alone = story(drawn(plan_of(sure, one, seed=seed)), "one")
    assert story(both, "one") == alone
    assert story(drawn(plan_of(two, sure, one, seed=seed)), "one") == alone


def test_another_learner_never_moves_when_the_others_fail() -> None:
    spec = fault(Target(everyone=True), arrivals=Arrivals(mtbf_s=100.0))
    few, many = (story(drawn(plan_of(spec, learners=n)), "it") for n in (3, 5))
    assert few == [entry for entry in many if entry[1][0] < "learner-3"]


def test_the_numbers_behind_a_seed_stay_what_they_are() -> None:
    assert stream(7, "a", "b").random() != stream(7, "ab").random()
    spec = fault(Target(everyone=True), name="crashes", arrivals=Arrivals(mtbf_s=400.0, most=3))
    first = [(i.trigger.time_s, *i.targets) for i in drawn(plan_of(spec)).injections]
    assert first == [(157.055, "learner-3"), (168.717, "learner-1"), (182.24, "learner-2")]


@pytest.mark.parametrize(
    ("dist", "shape", "median_s"),
    [
        (Distribution.WEIBULL, 0.6, 32.47),  # 90 / gamma(1 + 1 / shape) * log(2) ** (1 / shape)
        (Distribution.WEIBULL, 2.5, 87.6),
        (Distribution.EXPONENTIAL, 3.0, 62.38),  # which has no shape
    ],
)
def test_the_mean_gap_of_arrivals_is_the_mtbf(
    dist: Distribution, shape: float, median_s: float
) -> None:
    rng = stream(1, "gaps")
    gaps = [gap_s(Arrivals(dist=dist, mtbf_s=90.0, shape=shape), rng) for _ in range(DRAWS)]
    assert mean(gaps) == pytest.approx(90, rel=0.05)
    assert median(gaps) == pytest.approx(median_s, rel=0.05)


def test_outages_have_the_mean_or_the_median_that_was_asked() -> None:
    def drawn_s(outage: Outage) -> list[float]:
        rng = stream(1, "outages")
        return [outage_s(outage, rng) or 0.0 for _ in range(DRAWS)]

    lognormal = drawn_s(Outage(dist=Distribution.LOGNORMAL, seconds=10.0, sigma=0.9))
    assert median(lognormal) == pytest.approx(10, rel=0.05)
    assert mean(lognormal) == pytest.approx(10 * 1.4993, rel=0.05)  # exp(sigma² / 2)
    for dist in (Distribution.EXPONENTIAL, Distribution.WEIBULL):
        drawn_here_s = drawn_s(Outage(dist=dist, seconds=10.0, shape=0.8))
        assert mean(drawn_here_s) == pytest.approx(10, rel=0.05)
    assert set(drawn_s(Outage(seconds=5.5))) == {5.5}
    assert max(drawn_s(Outage(dist=Distribution.LOGNORMAL, seconds=10.0, at_most_s=12.0))) == 12.0
    assert outage_s(Outage(rest=True), stream(1)) is None


def test_each_target_fails_by_itself_and_waits_anew_after_its_repair() -> None:
    spec = fault(
        Target(everyone=True),
        arrivals=Arrivals(mtbf_s=20.0, start_s=100.0, until_s=900.0),
        outage=Outage(dist=Distribution.EXPONENTIAL, seconds=30.0),
    )
    schedule = drawn(plan_of(spec))
    assert not schedule.dropped
    for index in range(4):
        own = [i for i in schedule.injections if i.targets == (f"learner-{index}",)]
        assert len(own) > 5
        for before, after in pairwise(own):
            assert (after.trigger.time_s or 0) >= (before.trigger.time_s or 0) + (before.for_s or 0)
    times = [i.trigger.time_s or 0 for i in schedule.injections]
    assert times == sorted(times)
    assert 100 <= times[0] < times[-1] < 900


def test_a_renewal_process_fails_once_in_mtbf_plus_outage() -> None:
    spec = fault(
        Target(names=("learner-0",)),
        arrivals=Arrivals(mtbf_s=3.0),
        outage=Outage(dist=Distribution.EXPONENTIAL, seconds=2.0),
    )
    counts = [len(drawn(plan_of(spec, seed=seed)).injections) for seed in range(40)]
    assert mean(counts) == pytest.approx(1000 / 5, rel=0.05)


def test_a_fault_that_is_never_healed_hits_each_target_once() -> None:
    spec = fault(Target(everyone=True), arrivals=Arrivals(mtbf_s=5.0), outage=Outage(rest=True))
    hits = [i.targets for i in drawn(plan_of(spec)).injections]
    assert sorted(hits) == [(f"learner-{n}",) for n in range(4)]


def test_arrivals_of_the_fleet_come_once_in_mtbf_and_spare_whoever_is_down() -> None:
    arrivals = Arrivals(per="fleet", mtbf_s=10.0)
    spec = fault(Target(count=1), arrivals=arrivals, outage=Outage(seconds=15.0))
    counts, victims = [], set()
    for seed in range(40):
        schedule = drawn(plan_of(spec, seed=seed))
        counts.append(len(schedule.injections) + len(schedule.dropped))
        victims |= {i.targets for i in schedule.injections}
        assert all("would still be under" in dropped.reason for dropped in schedule.dropped)
        assert len(schedule.dropped) < counts[-1] / 4
    assert mean(counts) == pytest.approx(100, rel=0.08)
    assert len(victims) == 4


def test_a_trace_gives_the_times_and_skips_whoever_is_still_down() -> None:
    arrivals = Arrivals(dist=Distribution.TRACE, trace_s=(40.0, 12.0, 14.0, 2000.0))
    schedule = drawn(plan_of(fault(Target(names=("learner-1",)), arrivals=arrivals)))
    assert [i.trigger for i in schedule.injections] == [Trigger(time_s=12.0), Trigger(time_s=40.0)]
    (dropped,) = schedule.dropped
    assert dropped.time_s == 14.0
    assert "learner-1" in dropped.reason


def test_a_trace_of_the_fleet_draws_its_targets() -> None:
    arrivals = Arrivals(per="fleet", dist=Distribution.TRACE, trace_s=(1.0, 2.0, 3.0))
    schedule = drawn(plan_of(fault(Target(count=1), arrivals=arrivals)))
    assert len({i.targets for i in schedule.injections}) == 3


def test_most_keeps_the_earliest() -> None:
    spec = fault(Target(everyone=True), arrivals=Arrivals(mtbf_s=50.0))
    every = drawn(plan_of(spec)).injections
    few = drawn(plan_of(replace(spec, arrivals=Arrivals(mtbf_s=50.0, most=4)))).injections
    assert few == every[:4]


@pytest.mark.parametrize(
    ("arrivals", "says"),
    [
        (Arrivals(mtbf_s=0.001), "10000"),
        (Arrivals(mtbf_s=1.0, start_s=2000.0), "seed 7"),
    ],
    ids=["far too many", "none at all"],
)
def test_arrivals_that_cannot_be_meant_are_refused(arrivals: Arrivals, says: str) -> None:
    spec = fault(Target(everyone=True), arrivals=arrivals, outage=Outage(seconds=0.001))
    with pytest.raises(PlanError, match=says):
        drawn(plan_of(spec))
    assert drawn(plan_of()).injections == ()
