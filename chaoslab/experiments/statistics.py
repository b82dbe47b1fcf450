"""Means of a cell over its seeds, with intervals, and errors against published values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Self

_T_95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1, 2, … degrees of freedom."""
_NORMAL_95: Final = 1.960


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean and the half width of its 95 % interval by Student's t."""

    value: float
    reach: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The mean of some values; one alone has no interval, and one that is infinite is it."""
        freedom = len(values) - 1
        if math.inf in values:
            return cls(value=math.inf, reach=0.0)
        if not freedom:
            return cls(value=values[0], reach=0.0)
        quantile = _T_95[freedom - 1] if freedom <= len(_T_95) else _NORMAL_95
        reach = quantile * stdev(values) / math.sqrt(len(values))
        return cls(value=fmean(values), reach=reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Differences from published values, in the unit that belongs to their measure."""

    count: int
    equal: int
    """How many are 0."""
    rms: float
    largest: float
    """The one that is farthest from 0, with its sign."""
    largest_at: str

    @classmethod
    def of(cls, errors: Sequence[tuple[str, float]]) -> Self:
        """Errors with the names of their cells; at least one."""
        at, largest = max(errors, key=lambda one: abs(one[1]))
        rms = math.sqrt(fmean(error * error for _, error in errors))
        equal = sum(not error for _, error in errors)
        return cls(count=len(errors), equal=equal, rms=rms, largest=largest, largest_at=at)
