"""Slope of a series by Theil and Sen: robust against single runs that were unlucky.

    values of runs 0, 1, … ─► slopes of all pairs ─► their median, and an interval around it

P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63 (1968).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

CONFIDENCE = 0.99
"""A plan has ten findings, and each is asked: with 95 %, every fourth steady plan would seem to
fall or to rise."""
_Z = 2.575829
RUNS_LEAST = 6
"""With fewer, even values that all fall are no proof at this confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Change of a value from one run to the next."""

    per_run: float
    low: float
    high: float
    """Between which two slopes the true one lies, with the confidence above."""

    @property
    def falls(self) -> bool:
        """Whether it certainly falls."""
        return self.high < 0

    @property
    def rises(self) -> bool:
        """Whether it certainly rises."""
        return self.low > 0


def slope(values: Sequence[float]) -> Slope | None:
    """The slope of a series, the oldest first; None for fewer values than `RUNS_LEAST`."""
    runs = len(values)
    if runs < RUNS_LEAST:
        return None
    pairs = combinations(enumerate(values), 2)
    slopes = sorted((later - before) / (j - i) for (i, before), (j, later) in pairs)
    # without a trend, the number of rising less that of falling pairs has this deviation
    reach = _Z * math.sqrt(runs * (runs - 1) * (2 * runs + 5) / 18)
    aside = max(0, math.floor((len(slopes) - reach) / 2))
    return Slope(per_run=median(slopes), low=slopes[aside], high=slopes[-1 - aside])
