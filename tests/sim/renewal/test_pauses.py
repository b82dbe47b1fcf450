"""Pauses of learners: those that the engine counts, and what is refused."""

from dataclasses import replace

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.failure_models import Fleet
from chaoslab.sim.renewal.learner import pauses
from chaoslab.sim.renewal.scenario import Policy, Scenario

SCENARIO = Scenario(policy=Policy.DECOUPLED, chips=600_000, learners=1, horizon_s=6 * 3600.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_they_are_the_time_that_the_engine_counts_as_down(seed: int) -> None:
    found = list(pauses(SCENARIO, seed, until_s=SCENARIO.horizon_s))
    away_s = sum(min(one.end_s, SCENARIO.horizon_s) - one.start_s for one in found)
    assert found
    assert 1 - away_s / SCENARIO.horizon_s == pytest.approx(simulate(SCENARIO, seed).uptime)


def test_each_learner_has_its_own_in_the_order_of_time() -> None:
    found = list(pauses(replace(SCENARIO, learners=3), 5, until_s=3600.0))
    assert {one.learner for one in found} == {0, 1, 2}
    assert found == sorted(found, key=lambda one: (one.learner, one.start_s))
    assert all(one.start_s < one.end_s and one.start_s < 3600.0 for one in found)


@pytest.mark.parametrize("fleet", [Fleet.POWER_DOMAINS, Fleet.SPOT_TRACE])
def test_outages_of_many_chips_are_refused(fleet: Fleet) -> None:
    with pytest.raises(PlanError, match="failures"):
        list(pauses(replace(SCENARIO, failures=fleet), 0, until_s=1.0))
