"""Time in which a quorum of learners trains, from when each goes down and comes back."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.float64]
"""Seconds."""


def advanced_s(
    went_s: Times, came_s: Times, *, too_many: int, began_s: float, end_s: float
) -> float:
    """Seconds from `began_s` to `end_s` in which fewer than `too_many` were down.

    Both times are sorted, each on its own, and lie in between. Too many are down from the n-th time
    that one goes down to the next one, or to the return that leaves fewer, whichever comes first.
    """
    if went_s.size < too_many:
        return end_s - began_s
    until_s = np.minimum(np.append(went_s[too_many:], end_s), came_s[: went_s.size - too_many + 1])
    return end_s - began_s - float(np.maximum(until_s - went_s[too_many - 1 :], 0.0).sum())
