"""Presets: each has its source, and the rates are those of the publications."""

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.renewal.engine import simulate
from chaoslab.sim.renewal.failure_models import HOUR_S, MODELS, FailureModel, Fleet
from chaoslab.sim.renewal.scenario import Policy, Scenario


@pytest.mark.parametrize("fleet", Fleet)
def test_every_preset_has_a_source_and_can_be_simulated(fleet: Fleet) -> None:
    assert MODELS[fleet].source
    for policy, learners in ((Policy.RIGID, 1), (Policy.ELASTIC, 1), (Policy.DECOUPLED, 4)):
        scenario = Scenario(
            policy=policy, learners=learners, chips=8192, failures=fleet, horizon_s=6 * HOUR_S
        )
        result = simulate(scenario, 1)
        assert 0 <= result.goodput <= result.uptime * (1 + 1e-9) <= 1 + 1e-9 or learners > 1
        assert 0 <= result.goodput <= 1


@pytest.mark.parametrize(
    ("fleet", "hours"),
    [
        (Fleet.ONE_PER_YEAR, 8_760),
        (Fleet.LLAMA_3, 50_700),
        (Fleet.META_RSC_1, 29_500),
        (Fleet.META_RSC_2, 82_000),
    ],
)
def test_rates_are_those_that_were_published(fleet: Fleet, hours: float) -> None:
    assert MODELS[fleet].mtbi_s / HOUR_S == pytest.approx(hours, rel=0.002)


def test_a_few_bad_machines_cause_half_of_the_failures() -> None:
    model = MODELS[Fleet.BAD_MACHINES]
    bad = model.bad_share * model.bad_factor
    assert bad / (bad + 1 - model.bad_share) >= 0.5


def test_bad_machines_with_a_memory_are_refused() -> None:
    with pytest.raises(PlanError, match=r"^bad_share: "):
        FailureModel(mtbi_s=1.0, shape=0.7, bad_share=0.1, source="a test")


def test_shares_of_more_than_all_interruptions_are_refused() -> None:
    with pytest.raises(PlanError, match=r"^hang_share: "):
        FailureModel(mtbi_s=1.0, hang_share=0.6, slow_share=0.5, source="a test")
