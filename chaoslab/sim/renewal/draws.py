"""Possible failures of one learner: when, which chip, and how long its repair takes.

    PCG64 ─► rows of three uniform numbers ─► gap before it, place among all chips, repair

A possible failure comes about if the chip that it strikes is in service. So its trained time does
not depend on what is out of service, and thousands can be drawn at once. The n-th row is the same
however many are drawn together.
"""

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

import numpy as np

from chaoslab.sim.distributions import Distribution, Exponential
from chaoslab.sim.portable_math import Numbers

Rows: TypeAlias = np.random.Generator
_BATCH = 512


def rows(rng: Random) -> Rows:
    """The stream of rows that `rng` seeds."""
    return np.random.Generator(np.random.PCG64(rng.getrandbits(128)))


def quantiles(
    shares: Numbers, gap: Exponential, repair: Distribution
) -> tuple[Numbers, Numbers, Numbers]:
    """Gaps in seconds of training, places from 0 to 1, repairs in seconds; `shares` is (…, 3)."""
    gaps, places, repairs = np.ascontiguousarray(np.moveaxis(shares, -1, 0))
    return gap.quantiles(gaps), places, repair.quantiles(repairs)


def one_by_one(
    source: Rows, gap: Exponential, repair: Distribution
) -> Iterator[tuple[float, float, float]]:
    """Gap, place and repair of each possible failure, without an end."""
    while True:
        batch = quantiles(source.random((_BATCH, 3)), gap, repair)
        yield from zip(*(column.tolist() for column in batch), strict=True)
