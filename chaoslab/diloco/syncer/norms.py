"""Usual size of an update, and the bound on pushes that are far larger.

    norms of a round's pushes ─► norm / √steps ─► compared with the usual ─► factors
                                     └──► median of the round ─► usual, for later rounds

A push k times as large as usual would dominate the merged update, whatever its cause: a faulty
chip, a wrong scale, an attack. It is not refused, because its tokens were trained on: its outer
gradient is scaled down to the usual norm, so that it counts as much as any other. A correct push
that was scaled up is thereby restored.

The usual size is the median over the last rounds of the fragment of each round's median. So one
learner among several cannot move it, nor one that is alone in its round and far beyond it; a change
common to all (a higher learning rate) becomes usual after a few rounds. The norm of an update grows
with its steps, at least like their square root; dividing by that makes long and short rounds
comparable. Until enough rounds were seen, while a learning rate may still be warming up, only a
push a thousand times larger than the others of its own round is bounded.

Computes with numbers only; no learners, no bytes. Standard library only.
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, median_low

_ROUNDS_KEPT = 16
"""Number of round medians of a fragment that define its usual size."""
_EARLY_LIMIT = 1000.0
"""Limit before the usual size is known, as a multiple of the median of the others in the round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of one push."""

    norm: float
    """L2 norm over the fragment, as float64."""
    steps: int
    """Inner steps of the push, at least 1."""

    @property
    def per_step(self) -> float:
        """Norm of the push divided by √steps, comparable between pushes."""
        return self.norm / math.sqrt(max(1, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A push beyond the limit."""

    norm: float
    usual: float
    """Usual norm of a push of this many steps."""
    limit: float
    """Allowed multiple of the usual norm."""

    @property
    def factor(self) -> float:
        """Factor that scales the push down to the usual norm."""
        return self.usual / self.norm


class Norms:
    """Usual size per fragment. With `limit` None nothing is bounded."""

    def __init__(self, *, limit: float | None, rounds_min: int) -> None:
        self._limit = limit
        self._rounds_min = rounds_min
        self._medians: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_ROUNDS_KEPT))

    def judge(self, fragment: int, sizes: Sequence[Size]) -> list[Excess | None]:
        """Excess of each push of one round, None where within the limit. Learns from the round."""
        found = [self._excess(fragment, sizes, index) for index in range(len(sizes))]
        self.learn(fragment, round_median(sizes, found))
        return found

    def learn(self, fragment: int, per_step: float) -> None:
        """Add the median of a round of the fragment; 0 is ignored."""
        if per_step > 0:
            self._medians[fragment].append(per_step)

    def usual(self, fragment: int) -> float | None:
        """Usual norm / √steps of the fragment; None until enough rounds were seen."""
        medians = self._medians[fragment]
        return median(medians) if len(medians) >= self._rounds_min else None

    def _excess(self, fragment: int, sizes: Sequence[Size], index: int) -> Excess | None:
        if self._limit is None:
            return None
        size, usual, limit = sizes[index], self.usual(fragment), self._limit
        if usual is None:
            others = [one.per_step for one in (*sizes[:index], *sizes[index + 1 :]) if one.norm > 0]
            usual, limit = (median_low(others) if others else None), _EARLY_LIMIT
        if usual is None or size.per_step <= limit * usual:
            return None
        return Excess(norm=size.norm, usual=usual * math.sqrt(max(1, size.steps)), limit=limit)


def round_median(sizes: Sequence[Size], found: Sequence[Excess | None]) -> float:
    """Median of norm / √steps over those above zero, which a round contributes; 0 without any, and
    if its only push was beyond the limit.

    Otherwise a learner that is alone in its rounds would make its own excess usual.
    """
    if len(sizes) == 1 and found[0] is not None:
        return 0.0
    moving = [size.per_step for size in sizes if size.norm > 0]
    return median_low(moving) if moving else 0.0
