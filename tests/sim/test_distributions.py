"""Distributions: their means and survival, each against draws and against the other."""

import math
from random import Random

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.sim.distributions import (
    Distribution,
    Exponential,
    ExponentiatedWeibull,
    Lognormal,
    weibull,
)

DRAWS = 20_000
DISTRIBUTIONS: list[Distribution] = [
    Exponential(mean_s=3.0),
    weibull(mean_s=3.0, shape=1.5),
    weibull(mean_s=3.0, shape=0.8),
    ExponentiatedWeibull(mean_s=3.0, shape=0.9, power=2),
    ExponentiatedWeibull(mean_s=3.0, shape=1.2, power=5),
    Lognormal(mean_s=3.0, sigma=0.5),
]


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=repr)
def test_the_mean_of_draws_is_the_mean(one: Distribution) -> None:
    rng = Random(1)
    draws = [one.draw(rng) for _ in range(DRAWS)]
    assert min(draws) > 0
    assert sum(draws) / DRAWS == pytest.approx(one.mean_s, rel=0.04)


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=repr)
def test_survival_is_the_share_of_longer_draws(one: Distribution) -> None:
    rng = Random(2)
    draws = [one.draw(rng) for _ in range(DRAWS)]
    for time_s in (0.5, 2.0, 6.0):
        longer = sum(draw > time_s for draw in draws) / DRAWS
        assert one.survival(time_s) == pytest.approx(longer, abs=0.015)


@pytest.mark.parametrize("one", DISTRIBUTIONS, ids=repr)
def test_the_area_below_survival_is_the_mean(one: Distribution) -> None:
    step_s = 0.002
    area = sum(one.survival((i + 0.5) * step_s) * step_s for i in range(60_000))
    assert area == pytest.approx(one.mean_s, rel=0.01)


def test_a_weibull_distribution_of_shape_1_is_exponential() -> None:
    exponential, same = Exponential(mean_s=4.0), weibull(mean_s=4.0, shape=1.0)
    assert exponential.draw(Random(3)) == pytest.approx(same.draw(Random(3)))
    assert exponential.survival(5.0) == pytest.approx(same.survival(5.0))


def test_a_power_is_the_longest_of_so_many_times() -> None:
    one = weibull(mean_s=1.0, shape=0.7)
    three = ExponentiatedWeibull(mean_s=1.0, shape=0.7, power=3)
    stretch = 1 / sum(
        max(one.draw(rng) for _ in range(3)) / DRAWS for rng in [Random(4)] for _ in range(DRAWS)
    )
    time_s = 1.5
    of_three = 1 - (1 - one.survival(time_s / stretch)) ** 3
    assert three.survival(time_s) == pytest.approx(of_three, abs=0.01)


@pytest.mark.parametrize("mean_s", [0.0, -1.0, math.inf, math.nan])
def test_a_mean_that_is_no_time_is_refused(mean_s: float) -> None:
    with pytest.raises(PlanError, match=r"^mean_s: "):
        Exponential(mean_s=mean_s)
    with pytest.raises(PlanError, match=r"^mean_s: "):
        weibull(mean_s=mean_s, shape=1.0)


@pytest.mark.parametrize("shape", [0.0, -0.5])
def test_a_shape_that_is_none_is_refused(shape: float) -> None:
    with pytest.raises(PlanError, match=r"^shape: "):
        weibull(mean_s=1.0, shape=shape)
