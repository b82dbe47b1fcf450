"""Closed forms of renewal processes, where there are any, to hold the engine against.

Failures come at `rate` per second of training; a pause is `change_s`.
"""

import math


def rigid_goodput(rate: float, *, repair_s: float, change_s: float) -> float:
    """Alternating renewal: 1 / rate of training, then repair and restart."""
    return 1 / (1 + rate * (repair_s + change_s))


def elastic_goodput(rate: float, *, grow_every_s: float, change_s: float) -> float:
    """Repairs that take no time: between two grow points each failure costs a change, and one more
    takes the slices back if there was any failure.
    """
    changes = rate * grow_every_s + 1 - math.exp(-rate * grow_every_s)
    return grow_every_s / (grow_every_s + changes * change_s)


def quorum_uptime(share: float, *, learners: int, quorum: int) -> float:
    """Share of time in which at least `quorum` of independent learners train."""
    return sum(
        math.comb(learners, n) * share**n * (1 - share) ** (learners - n)
        for n in range(quorum, learners + 1)
    )
