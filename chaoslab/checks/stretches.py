"""Stretches of a run's time, each from a start to an end: what holds, joins and adds them up."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

Stretches: TypeAlias = Sequence[tuple[float, float]]
"""(start, end) of each, in seconds"""


def holds(stretches: Stretches, time_s: float) -> bool:
    """Whether a time lies in one of them, which are in order and apart (`union`)."""
    begun = bisect_right(stretches, (time_s, inf))
    return begun > 0 and time_s <= stretches[begun - 1][1]


def union(stretches: Iterable[tuple[float, float]]) -> Stretches:
    """The same time without overlaps, in order."""
    joined: list[tuple[float, float]] = []
    for start_s, end_s in sorted(stretches):
        if joined and start_s <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_s))
        else:
            joined.append((start_s, end_s))
    return joined


def union_by_name(stretches: Iterable[tuple[str, float, float]]) -> Mapping[str, Stretches]:
    """The `union` of the stretches of each name, from (name, start, end) of each."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, start_s, end_s in stretches:
        found[name].append((start_s, end_s))
    return {name: union(own) for name, own in found.items()}


def without(stretches: Stretches, taken: Stretches) -> Stretches:
    """Parts of the stretches outside of those that are taken; both in order and apart."""
    left: list[tuple[float, float]] = []
    for start_s, end_s in stretches:
        from_s = start_s
        for taken_s, given_s in taken:
            if from_s < min(taken_s, end_s):
                left.append((from_s, min(taken_s, end_s)))
            from_s = max(from_s, given_s)
        if from_s < end_s:
            left.append((from_s, end_s))
    return left


def overlap_s(stretches: Stretches, start_s: float, end_s: float) -> float:
    """Seconds of a stretch that lie in these; those in several count several times."""
    return sum(max(0.0, min(b, end_s) - max(a, start_s)) for a, b in stretches)
