"""A file of costs made of samples: medians, with where they come from and how much they vary.

    start_s = 0.662  # 12 samples of 2 runs, nine in ten from 0.61 to 0.74
    [quantiles]
    push_s = [0.001, 0.004, 0.03]

`sim.costs.Costs.read` takes it. What was not measured is left out, so that its default holds; work
of which there are few samples has no quantiles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from chaoslab.calibration.samples import Samples
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.sim.costs import Costs, quantile_lines

_DIGITS = 4
"""Digits of a measured cost: more would be noise."""
_TAILS = 0.05
_PARTS = 40
"""Shares of the samples between two quantiles: the slowest of them are one share."""
_LEAST = 2 * _PARTS
"""Number of samples for quantiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One cost by real runs."""

    cost: str
    value: float
    """Median of all samples."""
    low: float
    """One sample in twenty is below this."""
    high: float
    """One sample in twenty is above this."""
    samples: int
    runs: int
    """Number of runs that have samples of it."""
    quantiles: Sequence[float] = ()
    """Quantiles of work that varies from round to round."""

    @property
    def default(self) -> float | None:
        """Default of a simulation without a file."""
        found: float | None = getattr(Costs(), self.cost)
        return found

    def to_json(self) -> dict[str, Json]:
        """All of it, with the default."""
        return {
            "cost": self.cost,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "samples": self.samples,
            "runs": self.runs,
            "default": self.default,
            "quantiles": list(self.quantiles),
        }


def measured(runs: Sequence[Samples]) -> Sequence[Measured]:
    """Every cost with samples in these runs, in the order of `Costs`.

    A median of 0 is left out where a simulation cannot have it: the runs are too coarse for it.
    """
    found = []
    for one in Costs.each():
        having = [samples[one.name] for samples in runs if samples.get(one.name)]
        values = sorted(value for samples in having for value in samples)
        if values and (median(values) > 0 or one.name not in Costs.ABOVE_ZERO):
            found.append(
                Measured(
                    cost=one.name,
                    value=_rounded(median(values)),
                    low=_rounded(_quantile(values, _TAILS)),
                    high=_rounded(_quantile(values, 1 - _TAILS)),
                    samples=len(values),
                    runs=len(having),
                    quantiles=_quantiles(one.name, values),
                )
            )
    return found


def missing(found: Sequence[Measured]) -> Sequence[str]:
    """Costs without a sample."""
    names = {one.cost for one in found}
    return [one.name for one in Costs.each() if one.name not in names]


def to_toml(found: Sequence[Measured], runs: Sequence[str]) -> str:
    """The file, with the names of the runs that it comes from."""
    lines = [f"# chaoslab research calibrate: {', '.join(runs)}", *map(_line, found)]
    if left := missing(found):
        lines.append(f"# not measured, so that the default applies: {', '.join(left)}")
    lines += quantile_lines({one.cost: one.quantiles for one in found if one.quantiles})
    return "".join(f"{line}\n" for line in lines)


def _line(one: Measured) -> str:
    where = f"{plural(one.samples, 'sample')} of {plural(one.runs, 'run')}"
    return f"{one.cost} = {one.value!r}  # {where}, nine in ten from {one.low:g} to {one.high:g}"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _quantiles(cost: str, ordered: Sequence[float]) -> Sequence[float]:
    """Quantiles in order, if this work may vary and there are enough samples."""
    if cost not in Costs.VARYING or len(ordered) < _LEAST:
        return ()
    return [_rounded(_quantile(ordered, part / _PARTS)) for part in range(_PARTS + 1)]


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The sample at this share of all, in order."""
    return ordered[round(share * (len(ordered) - 1))]
