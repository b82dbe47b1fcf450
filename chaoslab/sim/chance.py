"""Random streams of a simulation: one for each life of each node and each direction of a link.

Drawn are uniform numbers and sums of them. Logarithms and exponentials differ in their last bit
from one C library to another; additions, multiplications and square roots do not. So the same seed
gives the same journal on any machine.
"""

import random
from collections.abc import Sequence

_SQRT_3 = 1.7320508075688772
_LEAST = 0.1


class Chance:
    """One stream of random numbers."""

    def __init__(self, *name: object) -> None:
        """Streams of different names are independent, those of the same name alike."""
        self._random = random.Random("/".join(map(str, name)))

    def uniform(self, low: float, high: float) -> float:
        """Uniform between both."""
        return low + (high - low) * self._random.random()

    def among(self, quantiles: Sequence[float]) -> float:
        """A number of the distribution with these quantiles: straight between two neighbours."""
        place = (len(quantiles) - 1) * self._random.random()
        low = int(place)
        return quantiles[low] + (place - low) * (quantiles[low + 1] - quantiles[low])

    def spread(self, mean: float, share: float) -> float:
        """About `mean`, with a standard deviation of `share` of it, never below a tenth of it.

        A sum of four uniform numbers, which is near to normal and ends at 3.5 deviations.
        """
        if not share:
            return mean
        draw = self._random.random
        deviation = _SQRT_3 * (draw() + draw() + draw() + draw() - 2.0)
        factor = 1.0 + share * deviation
        return mean * (factor if factor > _LEAST else _LEAST)
