"""Stretches of a run's time, each from a start to an end: what holds, joins and adds them up."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Stretches: TypeAlias = Sequence[tuple[float, float]]
"""(start, end) of each, in seconds"""


def holds(stretches: Stretches, time_s: float) -> bool:
    """Whether a time lies in one of them."""
    return any(start_s <= time_s <= end_s for start_s, end_s in stretches)


def union(stretches: Iterable[tuple[float, float]]) -> Stretches:
    """The same time without overlaps, in order."""
    joined: list[tuple[float, float]] = []
    for start_s, end_s in sorted(stretches):
        if joined and start_s <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_s))
        else:
            joined.append((start_s, end_s))
    return joined


def overlap_s(stretches: Stretches, start_s: float, end_s: float) -> float:
    """Seconds of a stretch that lie in these; those in several count several times."""
    return sum(max(0.0, min(b, end_s) - max(a, start_s)) for a, b in stretches)
