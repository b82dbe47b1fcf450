"""Distributions of simulated times, each scaled to its mean.

    Weibull(mean_s=3600, shape=0.6).draw(rng) ─► seconds

Draws use `random()` alone, whose sequence for a seed is the same in all versions of Python.
`survival` is the probability that a time is longer than the given one.
"""

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Protocol

from chaoslab.core.errors import PlanError

_NORMAL = NormalDist()


class Uniform(Protocol):
    """A source of uniform numbers, such as `random.Random`."""

    def random(self) -> float:
        """From 0 to 1, without 1."""


class Distribution(Protocol):
    """A distribution of times above zero."""

    @property
    def mean_s(self) -> float:
        """Mean in seconds."""

    def draw(self, rng: Uniform) -> float:
        """One time in seconds."""

    def survival(self, time_s: float) -> float:
        """Probability of a time longer than `time_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Exponential distribution: without memory of earlier times."""

    mean_s: float

    def __post_init__(self) -> None:
        _require_positive(mean_s=self.mean_s)

    def draw(self, rng: Uniform) -> float:
        """One time in seconds."""
        return -self.mean_s * math.log(1.0 - rng.random())

    def survival(self, time_s: float) -> float:
        """e^(-t / mean)."""
        return math.exp(-time_s / self.mean_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentiatedWeibull:
    """The longest of `power` independent Weibull times: F(t) = (1 - e^(-(t/scale)^shape))^power.

    G. S. Mudholkar, D. K. Srivastava, "Exponentiated Weibull Family for Analyzing Bathtub
    Failure-Rate Data", IEEE Transactions on Reliability 42 (1993). A `shape` below 1 gives a heavy
    tail. `power` is a whole number here, for which the mean is a finite sum.
    """

    mean_s: float
    shape: float
    power: int = 1

    def __post_init__(self) -> None:
        _require_positive(mean_s=self.mean_s, shape=self.shape, power=self.power)

    def draw(self, rng: Uniform) -> float:
        """One time in seconds."""
        below = rng.random() ** (1.0 / self.power)
        return self._scale_s * math.pow(-math.log(1.0 - below), 1.0 / self.shape)

    def survival(self, time_s: float) -> float:
        """1 - F(t)."""
        below: float = -math.expm1(-math.pow(time_s / self._scale_s, self.shape))
        return float(1.0 - below**self.power)

    @property
    def _scale_s(self) -> float:
        return self.mean_s / _weibull_mean(self.shape, self.power)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lognormal:
    """e to the power of a normal number with deviation `sigma`."""

    mean_s: float
    sigma: float

    def __post_init__(self) -> None:
        _require_positive(mean_s=self.mean_s, sigma=self.sigma)

    def draw(self, rng: Uniform) -> float:
        """One time in seconds."""
        normal = _NORMAL.inv_cdf(rng.random() or 0.5**54)
        return self._median_s * math.exp(self.sigma * normal)

    def survival(self, time_s: float) -> float:
        """1 - F(t)."""
        if time_s <= 0:
            return 1.0
        return _NORMAL.cdf(-math.log(time_s / self._median_s) / self.sigma)

    @property
    def _median_s(self) -> float:
        return self.mean_s * math.exp(-self.sigma * self.sigma / 2)


def weibull(*, mean_s: float, shape: float) -> ExponentiatedWeibull:
    """The plain Weibull distribution: a power of 1."""
    return ExponentiatedWeibull(mean_s=mean_s, shape=shape, power=1)


@cache
def _weibull_mean(shape: float, power: int) -> float:
    """Mean of an exponentiated Weibull distribution whose scale is 1."""
    terms = (
        (-1) ** i * math.comb(power - 1, i) * (i + 1) ** (-1 - 1 / shape) for i in range(power)
    )
    return float(power * math.gamma(1 + 1 / shape) * sum(terms))


def _require_positive(**parameters: float) -> None:
    for name, value in parameters.items():
        if not 0 < value < math.inf:
            raise PlanError(f"must be above 0 and finite, got {value!r}", key=name)
