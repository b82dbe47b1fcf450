"""Fewer samples of long runs: curves keep the lowest and highest of each stretch of time.

· ·· · ·· ·· ·  ─►  stretches of equal length  ─►  · ·  ·   at most `most` in all
"""

from collections.abc import Sequence
from itertools import groupby

Sample = tuple[float, float]
"""Time in seconds, and value."""


def thinned(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    """At most this many of the samples, in order; every peak and every dip is among them."""
    if len(samples) <= most:
        return samples
    began_s, ended_s = samples[0][0], samples[-1][0]
    width_s = (ended_s - began_s) / (most // 2 - 1)
    if width_s <= 0:
        return samples[:most]
    kept: list[Sample] = []
    for _, group in groupby(samples, key=lambda sample: int((sample[0] - began_s) / width_s)):
        stretch = list(group)
        ends = {min(stretch, key=_value), max(stretch, key=_value)}
        kept += sorted(ends)
    return kept


def every(count: int, most: int) -> int:
    """Of how many slices one is drawn so that at most this many are: 1 is all."""
    return max(1, -(-count // most))


def _value(sample: Sample) -> float:
    return sample[1]
