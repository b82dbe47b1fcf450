"""Possible failures of one learner: when, which chip, and how long its repair takes.

    PCG64 ─► rows of three uniform numbers ─► gap before it, place among all chips, repair

A possible failure comes about if the chip that it strikes is in service. So its trained time does
not depend on what is out of service, and many can be drawn at once.
"""

from collections.abc import Iterator
from random import Random

import numpy as np

from chaoslab.sim.distributions import Distribution, Exponential

_BATCH = 512


def possible_failures(
    rng: Random, gap: Exponential, repair: Distribution
) -> Iterator[tuple[float, float, float]]:
    """Gap in seconds of training, place from 0 to 1 and repair in seconds of each, without end.

    `rng` seeds their stream.
    """
    source = np.random.Generator(np.random.PCG64(rng.getrandbits(128)))
    while True:
        gaps, places, repairs = np.ascontiguousarray(source.random((_BATCH, 3)).T)
        columns = (gap.quantiles(gaps), places, repair.quantiles(repairs))
        yield from zip(*(column.tolist() for column in columns), strict=True)
