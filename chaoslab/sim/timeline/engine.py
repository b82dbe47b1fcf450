"""Engine: the timeline that a training has over links of one bandwidth, and the least bandwidth
of a grid with which it reaches a target.

The grid is that of Streaming DiLoCo (arXiv 2501.18512, table 4): all values that are published
there are points of 50 equal ratios from 0.1 to 1000 Gbit/s.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import BytesPerSecond
from chaoslab.sim.timeline import ring, star
from chaoslab.sim.timeline.training import GBIT, Method, Result, Training


def simulate(training: Training, rate_bytes_per_s: float) -> Result:
    """Result over links of that rate, each way."""
    simulated = star.simulate if training.through_syncer else ring.simulate
    return simulated(training, rate_bytes_per_s)


def speed_up(training: Training, rate_bytes_per_s: float) -> float:
    """Speed of its steps relative to synchronisation in every step.

    The other training sends 16 bits for each parameter in a ring, over the same links.
    """
    every = replace(
        training, method=Method.DATA_PARALLEL, bits=16.0, overlap=0, fragments=0, syncer=False
    )
    return simulate(every, rate_bytes_per_s).step_s / simulate(training, rate_bytes_per_s).step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Training):
    """A training over links of a given bandwidth."""

    rate_bytes_per_s: BytesPerSecond
    """Bandwidth of the link of each data centre, each way."""

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        if self.rate_bytes_per_s <= 0:
            raise PlanError("must be above 0", key="rate")


_POINTS, _LEAST_LOG, _MOST_LOG = 50, -1.0, 3.0
GRID_GBIT: Final = tuple(
    10 ** (_LEAST_LOG + (_MOST_LOG - _LEAST_LOG) * point / (_POINTS - 1))
    for point in range(_POINTS)
)
"""Gbit/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Training):
    """A training, and the utilisation that it is to reach."""

    utilisation: units.Share
    """Compute utilisation to be reached; with `decoupled`, whose learners never wait, share of the
    planned rounds."""

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        if not 0 < self.utilisation < 1:
            shown = units.show_share(self.utilisation)
            raise PlanError(f"must be above 0% and below 100%, got {shown}", key="utilisation")


def least_gbit(training: Training, target: float) -> float:
    """Gbit/s of the first point of the grid that reaches the target; infinite if none does.

    What must reach it is the utilisation times the share of the planned rounds: learners that wait
    make all rounds, those that do not wait compute all the time.
    """
    point = bisect_left(GRID_GBIT, target, key=lambda gbit: reached(training, gbit))
    return GRID_GBIT[point] if point < _POINTS else math.inf


def reached(training: Training, gbit: float) -> float:
    """Utilisation times the share of the planned rounds that are made."""
    result = simulate(training, gbit * GBIT)
    return result.utilisation * result.rounds


def grid_steps(gbit: float, other_gbit: float) -> int:
    """Number of points of the grid by which the first lies above the second."""
    return _nearest(gbit) - _nearest(other_gbit)


def _nearest(gbit: float) -> int:
    if math.isinf(gbit):
        return _POINTS
    share = (math.log10(gbit) - _LEAST_LOG) / (_MOST_LOG - _LEAST_LOG)
    return round(share * (_POINTS - 1))
