"""Outages of domains and of recorded traces: when they come, and whose chips they take."""

from itertools import islice, pairwise
from statistics import fmean, median

import pytest

from chaoslab.sim.renewal.failure_models import HOUR_S, YEAR_S, Domain, FailureModel
from chaoslab.sim.renewal.outages import Outage, outages, read_trace
from chaoslab.sim.renewal.scenario import Policy, Scenario
from tests.sim.renewal.fixed import Fixed

TRACE = "bamboo_p2_xlarge"
SCENARIO = Scenario(policy=Policy.DECOUPLED, learners=4, chips=4000, slice_chips=100)


def drawn(*domains: Domain, trace: str = "", number: int = 2000, seed: int = 1) -> list[Outage]:
    model = FailureModel(mtbi_s=YEAR_S, domains=domains, trace=trace, source="a test")
    return list(islice(outages(SCENARIO, model, seed), number))


def domain(chips: int, name: str = "rack") -> Domain:
    return Domain(name=name, chips=chips, mtbf_s=1000.0, outage=Fixed(mean_s=60.0))


def test_outages_come_in_the_order_of_time_and_as_often_as_there_are_domains() -> None:
    found = drawn(domain(100), domain(2000, "zone"))
    assert all(before.time_s <= after.time_s for before, after in pairwise(found))
    racks = [one for one in found if sum(chips for _, chips in one.chips) == 100]
    assert len(racks) / found[-1].time_s == pytest.approx(40 / 1000, rel=0.1)
    assert (len(found) - len(racks)) / found[-1].time_s == pytest.approx(2 / 1000, rel=0.3)


def test_a_domain_takes_the_chips_that_lie_in_it() -> None:
    within = {one.chips for one in drawn(domain(500))}
    assert within == {((learner, 500.0),) for learner in range(4)}
    across = {one.chips for one in drawn(domain(1500))}
    assert across == {
        ((0, 1000.0), (1, 500.0)),
        ((1, 500.0), (2, 1000.0)),
        ((3, 1000.0),),  # what is left of the chips
    }


def test_domains_of_one_kind_do_not_change_the_draws_of_another() -> None:
    alone = drawn(domain(100), number=50)
    among = [one for one in drawn(domain(100), domain(2000, "zone"), number=60) if
             sum(chips for _, chips in one.chips) == 100]  # fmt: skip
    assert alone[:40] == among[:40]


def test_without_domains_and_traces_there_are_no_outages() -> None:
    assert drawn() == []


# ---------------------------------------------------------------- the trace of Bamboo


def test_the_trace_has_the_figures_that_are_told_of_it() -> None:
    trace = read_trace(TRACE)
    hours = trace.length_s / HOUR_S
    assert hours == pytest.approx(88.5, abs=0.1)
    by_time: dict[float, float] = {}
    for one in trace.preemptions:
        by_time[one.time_s] = by_time.get(one.time_s, 0.0) + 16 * one.share
    assert sum(by_time.values()) / (16 * hours) == pytest.approx(0.129, abs=0.02)
    assert fmean(number > 1.5 for number in by_time.values()) == pytest.approx(0.32, abs=0.05)
    lengths = [one.length_s / HOUR_S for one in trace.preemptions for _ in range(1)]
    assert median(lengths) == pytest.approx(0.13, abs=0.06)


def test_instances_of_the_trace_that_are_away_are_never_more_than_there_are() -> None:
    trace = read_trace(TRACE)
    for at in trace.preemptions:
        away = [
            one.share
            for one in trace.preemptions
            if one.time_s <= at.time_s < one.time_s + one.length_s
        ]
        assert sum(away) <= 1.0 + 1e-9


def test_each_learner_repeats_the_trace_from_a_place_of_its_own() -> None:
    found = drawn(trace=TRACE, number=4000)
    trace_s = read_trace(TRACE).length_s
    starts = {}
    for learner in range(4):
        own = [one for one in found if one.chips[0][0] == learner]
        starts[learner] = own[0].time_s
        again = [one for one in own if one.time_s > own[0].time_s + trace_s - 1e-3]
        assert again[0].time_s == pytest.approx(own[0].time_s + trace_s)
        assert again[0].chips == own[0].chips
    assert len({round(start_s, 3) for start_s in starts.values()}) == 4
    assert drawn(trace=TRACE, number=20) == drawn(trace=TRACE, number=20)
