"""Goodput and uptime of simulated trainings: against closed forms, and equal for equal seeds."""

import math
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from statistics import fmean

import pytest

from chaoslab.sim.distributions import Exponential
from chaoslab.sim.renewal.engine import Result, simulate
from chaoslab.sim.renewal.failure_models import YEAR_S, Domain, FailureModel, Fleet
from chaoslab.sim.renewal.scenario import Policy, Scenario
from tests.sim.renewal.closed_form import elastic_goodput, quorum_uptime, rigid_goodput
from tests.sim.renewal.fixed import Fixed

DAY_S = 86400.0
NEVER_S = 1e6 * YEAR_S
YEARLY = FailureModel(mtbi_s=YEAR_S, source="a test")
HEALTHY = FailureModel(mtbi_s=NEVER_S, source="a test")
RIGID = Scenario(policy=Policy.RIGID, chips=600_000)
ELASTIC = replace(RIGID, policy=Policy.ELASTIC, slice_chips=1, repair_mean_s=1e-3)
DECOUPLED = replace(RIGID, policy=Policy.DECOUPLED, learners=4)


def results(scenario: Scenario, model: FailureModel = YEARLY, seeds: int = 4) -> list[Result]:
    return [simulate(scenario, seed, model=model) for seed in range(seeds)]


def goodput(scenario: Scenario, model: FailureModel = YEARLY, seeds: int = 4) -> float:
    return fmean(one.goodput for one in results(scenario, model, seeds))


def uptime(scenario: Scenario, model: FailureModel = YEARLY, seeds: int = 4) -> float:
    return fmean(one.uptime for one in results(scenario, model, seeds))


def rate(scenario: Scenario) -> float:
    """Failures of one learner in a second of training."""
    return scenario.chips / scenario.learners / YEAR_S


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("chips", [150_000, 600_000, 2_400_000])
def test_rigid_goodput_is_that_of_an_alternating_renewal_process(chips: int) -> None:
    scenario = replace(RIGID, chips=chips)
    expected = rigid_goodput(rate(scenario), repair_s=62, change_s=16)
    assert goodput(scenario) == pytest.approx(expected, abs=0.008)
    assert uptime(scenario) == pytest.approx(expected, abs=0.008)


def test_the_shape_of_the_repair_does_not_matter_for_a_rigid_training() -> None:
    heavy = replace(RIGID, repair_shape=0.5, repair_power=3)
    assert goodput(heavy, seeds=8) == pytest.approx(goodput(RIGID, seeds=8), abs=0.012)


@pytest.mark.parametrize("chips", [150_000, 600_000, 2_400_000])
def test_elastic_goodput_is_that_of_its_changes(chips: int) -> None:
    scenario = replace(ELASTIC, chips=chips)
    expected = elastic_goodput(rate(scenario), grow_every_s=120, change_s=16)
    assert goodput(scenario) == pytest.approx(expected, abs=0.005)


@pytest.mark.deep
@pytest.mark.parametrize("learners", [2, 8])
def test_learners_are_as_good_as_one_elastic_training_on_the_chips_of_each(learners: int) -> None:
    together = replace(DECOUPLED, learners=learners, chips=1_200_000)
    alone = replace(together, policy=Policy.ELASTIC, learners=1, chips=1_200_000 // learners)
    assert goodput(together) == pytest.approx(goodput(alone, seeds=8), abs=0.006)


@pytest.mark.deep
@pytest.mark.parametrize(("learners", "quorum"), [(2, 1), (4, 1), (4, 3), (4, 4)])
def test_uptime_is_the_time_in_which_a_quorum_trains(learners: int, quorum: int) -> None:
    scenario = replace(
        DECOUPLED, chips=1_200_000, learners=learners, quorum=quorum, slice_chips=1,
        repair_mean_s=1e-3,
    )  # fmt: skip
    share = elastic_goodput(rate(scenario), grow_every_s=120, change_s=16)
    expected = quorum_uptime(share, learners=learners, quorum=quorum)
    assert uptime(scenario) == pytest.approx(expected, abs=0.008)


@pytest.mark.deep
def test_slices_that_are_away_for_long_are_missing_in_goodput_but_not_in_uptime() -> None:
    """Each failure takes 256 chips away for a day, and the fleet has 256 times a learner's rate."""
    away = replace(
        DECOUPLED, chips=40_960, learners=1, repair_mean_s=DAY_S, repair_shape=1.0, repair_power=1,
        change_s=1e-3, grow_every_s=1.0, horizon_s=400 * DAY_S,
    )  # fmt: skip
    share = 1 / (1 + 256 * DAY_S / (YEAR_S))  # of time that a slice is there: up 1 / rate, down 1 d
    assert goodput(away) == pytest.approx(share, abs=0.02)
    assert uptime(away) == pytest.approx(1, abs=1e-4)


# ---------------------------------------------------------------- kinds of failure


def test_a_hang_costs_the_time_until_it_is_noticed() -> None:
    hangs = replace(YEARLY, hang_share=1.0, hang_s=100.0)
    expected = rigid_goodput(rate(RIGID), repair_s=162, change_s=16)
    assert goodput(RIGID, hangs) == pytest.approx(expected, abs=0.01)


def test_a_slow_down_costs_the_difference_of_speeds_while_it_lasts() -> None:
    slow = replace(YEARLY, slow_share=1.0, slow_speed=0.6, slow_s=30.0)
    some = replace(RIGID, policy=Policy.ELASTIC, chips=600_000)
    is_slow = 1 - math.e ** (-rate(some) * 30)
    assert goodput(some, slow) == pytest.approx(1 - 0.4 * is_slow, abs=0.005)
    assert uptime(some, slow) == 1.0
    assert all(one.changes == 0 for one in results(some, slow))


def test_repairs_that_do_not_repair_are_failures_again() -> None:
    relapsing = replace(YEARLY, relapse_share=0.5, relapse_s=60.0)
    once, again = (
        sum(one.interruptions / one.goodput for one in results(RIGID, model))
        for model in (YEARLY, relapsing)
    )
    assert again / once == pytest.approx(2.0, rel=0.05)


@pytest.mark.deep
@pytest.mark.parametrize("shape", [0.6, 1.5])
def test_failures_with_a_memory_come_as_often_from_the_beginning_on(shape: float) -> None:
    """Chips that have been running for long: no wave of failures at the start."""
    model = FailureModel(mtbi_s=50_000.0, shape=shape, source="a test")
    small = Scenario(
        policy=Policy.DECOUPLED, chips=1000, slice_chips=1, change_s=1e-6, repair_mean_s=1e-3,
        grow_every_s=1e-2, horizon_s=5_000,
    )  # fmt: skip
    for horizon_s in (5_000, 150_000):
        found = results(replace(small, horizon_s=horizon_s), model, seeds=6)
        expected = 1000 * horizon_s / 50_000
        assert fmean(one.interruptions for one in found) == pytest.approx(expected, rel=0.12)


@pytest.mark.deep
def test_bad_machines_fail_in_place_of_others() -> None:
    """They change who fails, not how many do."""
    bad = replace(YEARLY, bad_share=0.05, bad_factor=20.0)
    usual, others = (
        sum(one.interruptions for one in results(ELASTIC, model, seeds=6))
        for model in (YEARLY, bad)
    )
    assert others / usual == pytest.approx(1.0, rel=0.03)


def test_bad_machines_in_repair_spare_their_learner() -> None:
    """Where few chips cause most failures, a long repair of these lowers the rate of the rest."""
    bad = replace(YEARLY, mtbi_s=100 * DAY_S, bad_share=0.01, bad_factor=99.0)
    long = Scenario(
        policy=Policy.DECOUPLED, chips=1000, slice_chips=1, repair_mean_s=5 * DAY_S,
        repair_shape=1.0, repair_power=1, horizon_s=200 * DAY_S,
    )  # fmt: skip
    usual, spared = (
        fmean(one.interruptions for one in results(long, model, seeds=6))
        for model in (replace(bad, bad_share=0.0, bad_factor=1.0), bad)
    )
    assert spared < 0.9 * usual


# ---------------------------------------------------------------- outages of many chips


def test_an_outage_of_everything_takes_every_learner_down_together() -> None:
    all_of_it = Domain(name="all", chips=600_000, mtbf_s=DAY_S, outage=Fixed(mean_s=3600.0))
    model = replace(HEALTHY, domains=(all_of_it,))
    found = results(replace(DECOUPLED, horizon_s=400 * DAY_S), model)
    down = 3616 / (DAY_S + 3616)  # chips that are away are not taken again
    for measure in ("goodput", "uptime"):
        mean = fmean(getattr(one, measure) for one in found)
        assert mean == pytest.approx(1 - down, abs=0.004)


def test_an_outage_of_a_zone_takes_its_own_learners_alone() -> None:
    """Two zones of two learners each: with one of them down, half of the work goes on."""
    zone = Domain(name="zone", chips=300_000, mtbf_s=20 * DAY_S, outage=Fixed(mean_s=3600.0))
    model = replace(HEALTHY, domains=(zone,))
    long = replace(DECOUPLED, horizon_s=2000 * DAY_S)
    down = 1 - math.e ** (-3616 / (20 * DAY_S))
    assert goodput(long, model) == pytest.approx(1 - down, abs=0.0005)
    assert uptime(replace(long, quorum=2), model) == pytest.approx(1 - down * down, abs=1e-4)
    assert uptime(replace(long, quorum=3), model) == pytest.approx((1 - down) ** 2, abs=0.001)


def test_an_outage_of_racks_costs_an_elastic_learner_a_change_and_the_racks() -> None:
    rack = Domain(name="rack", chips=100, mtbf_s=100 * DAY_S, outage=Exponential(mean_s=DAY_S))
    model = replace(HEALTHY, domains=(rack,))
    small = Scenario(
        policy=Policy.DECOUPLED, chips=10_000, horizon_s=400 * DAY_S, change_s=1.0, grow_every_s=10
    )
    # a rack that is out may lose nothing more: of 100 racks 1 % is out
    assert goodput(small, model) == pytest.approx(0.99, abs=0.003)
    assert uptime(small, model) == pytest.approx(1, abs=0.001)


def test_a_rigid_training_waits_for_the_end_of_an_outage() -> None:
    rack = Domain(name="rack", chips=64, mtbf_s=9375 * DAY_S, outage=Fixed(mean_s=3600.0))
    model = replace(HEALTHY, domains=(rack,))
    down = 1 - math.e ** (-3616 / DAY_S)
    found = goodput(replace(RIGID, horizon_s=400 * DAY_S), model)
    assert found == pytest.approx(1 - down, abs=0.006)


# ---------------------------------------------------------------- equal for equal seeds


def test_equal_seeds_give_equal_results_and_others_do_not() -> None:
    first, again, other = (simulate(DECOUPLED, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.deep
def test_another_process_gives_the_same_result() -> None:
    script = (
        "from chaoslab.sim.renewal.engine import simulate;"
        "from chaoslab.sim.renewal.scenario import Policy, Scenario;"
        "print(simulate(Scenario(policy=Policy.DECOUPLED, learners=4, chips=600_000), 7))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script], text=True, capture_output=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert said == {str(simulate(DECOUPLED, 7))}


# ---------------------------------------------------------------- cost


def test_the_work_grows_with_failures_and_not_with_chips() -> None:
    few = replace(DECOUPLED, chips=60_000, slice_chips=1)
    many = replace(few, chips=60_000_000)
    of_few = simulate(few, 3, model=replace(YEARLY, mtbi_s=YEAR_S / 10))
    of_many = simulate(many, 3, model=replace(YEARLY, mtbi_s=YEAR_S * 100))
    assert of_many.changes == pytest.approx(of_few.changes, rel=0.01)
    assert of_many.goodput == pytest.approx(of_few.goodput, abs=0.002)


def peak_bytes(scenario: Scenario) -> int:
    tracemalloc.start()
    simulate(scenario, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_stays_as_it_is_over_a_longer_time() -> None:
    hangs = replace(DECOUPLED, failures=Fleet.HANGS)
    peak_bytes(replace(hangs, horizon_s=3600.0))
    short, long = (peak_bytes(replace(hangs, horizon_s=days * DAY_S)) for days in (2, 20))
    assert long < 1.5 * short
