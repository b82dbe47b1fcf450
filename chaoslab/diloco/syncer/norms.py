"""How large an update usually is, and how a push far beyond that is bounded.

    norms of a round's pushes ─► of their kind: norm / √steps ─► against what is usual ─► factors
                                          └──► median of the round ─► usual, for later rounds

A push of one learner that is k times as large as usual would steer the whole model, whatever it
means: a broken chip, a wrong scale, ill will. It is not refused, since its tokens were trained on:
its outer gradient is shortened to the usual norm, so that it counts for no more than any other. A
push that was honest before it was scaled is then the honest push again.

Usual is the median over the last rounds of the same fragment of each round's median, so one learner
among several cannot move it, nor one that is far beyond it alone in its round; a change that all
share (a learning rate that is raised) becomes usual itself after a few rounds. A learner's drift
grows with its steps, at least like their root; dividing by it makes long absences and short rounds
comparable. Until enough rounds were seen, while a learning rate may still be warming up, only a
push that is thousandfold beyond the others of its own round is bounded.

Decides by numbers alone; knows no learner and no bytes. Standard library only.
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, median_low

_ROUNDS_KEPT = 16
"""Medians of so many rounds of a fragment make what is usual."""
_EARLY_LIMIT = 1000.0
"""Times the median of the others in the same round, before the usual is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large one push is."""

    norm: float
    """L2 over the fragment, as float64."""
    steps: int
    """Inner steps it was made of, at least 1."""

    @property
    def of_a_step(self) -> float:
        """The norm / √steps."""
        return self.norm / math.sqrt(max(1, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A push was beyond the limit."""

    norm: float
    usual: float
    """The norm that is usual for a push of so many steps."""
    limit: float
    """How many times the usual a push may be."""

    @property
    def factor(self) -> float:
        """Multiplied with it, the push has the usual norm."""
        return self.usual / self.norm


class Norms:
    """What is usual for each fragment. `limit` None: everything is."""

    def __init__(self, *, limit: float | None, rounds_min: int) -> None:
        self._limit = limit
        self._rounds_min = rounds_min
        self._medians: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_ROUNDS_KEPT))

    def judge(self, fragment: int, sizes: Sequence[Size]) -> list[Excess | None]:
        """The excess of each push of one round, None where there is none; and learn from them."""
        found = [self._excess(fragment, sizes, index) for index in range(len(sizes))]
        self.learn(fragment, lesson(sizes, found))
        return found

    def learn(self, fragment: int, of_a_step: float) -> None:
        """One more round of the fragment had this median; 0 teaches nothing."""
        if of_a_step > 0:
            self._medians[fragment].append(of_a_step)

    def usual(self, fragment: int) -> float | None:
        """The norm / √steps that is usual for the fragment; None while too few rounds were seen."""
        medians = self._medians[fragment]
        return median(medians) if len(medians) >= self._rounds_min else None

    def _excess(self, fragment: int, sizes: Sequence[Size], index: int) -> Excess | None:
        if self._limit is None:
            return None
        size, usual, limit = sizes[index], self.usual(fragment), self._limit
        if usual is None:
            others = [
                one.of_a_step for one in (*sizes[:index], *sizes[index + 1 :]) if one.norm > 0
            ]
            usual, limit = (median_low(others) if others else None), _EARLY_LIMIT
        if usual is None or size.of_a_step <= limit * usual:
            return None
        return Excess(norm=size.norm, usual=usual * math.sqrt(max(1, size.steps)), limit=limit)


def lesson(sizes: Sequence[Size], found: Sequence[Excess | None]) -> float:
    """What a round teaches: its middle; 0, which is nothing, of one push alone beyond the limit.

    Who is alone in its rounds, round after round, would else make its own excess usual.
    """
    return 0.0 if len(sizes) == 1 and found[0] is not None else middle(sizes)


def middle(sizes: Sequence[Size]) -> float:
    """The median of norm / √steps of those that are not zero; 0 without any."""
    moving = [size.of_a_step for size in sizes if size.norm > 0]
    return median_low(moving) if moving else 0.0
