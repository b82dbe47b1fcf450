"""Random streams, one for each purpose, and the draws that a plan can ask for.

Every stream is seeded by the plan's seed and the names of its purpose, so that a new fault or
learner does not change the draws of others. All draws use `Random.random()` only, whose sequence
for a seed is the same in all versions of Python.
"""

import hashlib
import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist

from chaoslab.core.errors import HarnessBug
from chaoslab.plan.model import Arrivals, Distribution, Outage


def stream(seed: int, *names: str) -> Random:
    """Random numbers for one purpose, independent of all others."""
    text = "\x1f".join([str(seed), *names])
    return Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big"))


def gap_s(arrivals: Arrivals, rng: Random) -> float:
    """Seconds until the next arrival; their mean is `mtbf_s`."""
    if arrivals.mtbf_s is None:
        raise HarnessBug("arrivals without mtbf have no gaps to draw")
    shape = arrivals.shape if arrivals.dist is Distribution.WEIBULL else 1.0
    return _weibull(arrivals.mtbf_s, shape, rng)


def outage_s(outage: Outage, rng: Random) -> float | None:
    """Seconds until a fault is healed, to the millisecond; None: not before the end."""
    if outage.rest or outage.seconds is None:
        return None
    match outage.dist:
        case Distribution.FIXED:
            return outage.seconds
        case Distribution.LOGNORMAL:
            drawn_s = outage.seconds * math.exp(outage.sigma * NormalDist().inv_cdf(_inside(rng)))
        case Distribution.WEIBULL:
            drawn_s = _weibull(outage.seconds, outage.shape, rng)
        case _:
            drawn_s = _weibull(outage.seconds, 1.0, rng)
    return round(drawn_s if outage.at_most_s is None else min(drawn_s, outage.at_most_s), 3)


def some(names: Sequence[str], number: int, rng: Random) -> tuple[str, ...]:
    """`number` of the names, drawn uniformly, in their original order."""
    drawn = set(sorted(names, key=lambda _: rng.random())[:number])
    return tuple(name for name in names if name in drawn)


def _weibull(mean: float, shape: float, rng: Random) -> float:
    """Weibull by inversion, scaled to its mean; shape 1 is the exponential distribution."""
    scale = mean / math.gamma(1 + 1 / shape)
    return scale * math.pow(-math.log(1 - rng.random()), 1 / shape)


def _inside(rng: Random) -> float:
    """A uniform number above zero and below one."""
    return rng.random() or 0.5**54
