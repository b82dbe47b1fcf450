"""Waits of a learner for rounds, in the synchronous algorithms (`blocking`).

    c_steps of any fragment = H ─► no step: wait, report ─► its next version adopted ─► step

DiLoCo (arXiv 2311.08105) and Streaming DiLoCo (arXiv 2501.18512) wait for every learner at a round;
Decoupled DiLoCo (arXiv 2604.21428) never does. Decides and counts; `program` does the waiting, in
short turns, so that a learner that waits still adopts, answers, leaves and ends.
"""

from collections.abc import Callable

from chaoslab.diloco.learner.counters import Counters

TURN_S = 0.1
"""Longest turn of a wait, in s."""
_TOLD_S = 0.25
"""Seconds from the beginning of a wait to its first report, and between two reports."""


class RoundWait:
    """Whether a learner waits for a round, and how long it did."""

    def __init__(self, tell: Callable[[Counters, float], None]) -> None:
        """`tell` is called four times a second, with the counters and the seconds waited."""
        self.limit: int | None = None
        """Steps past a fragment at which it waits; None: never."""
        self._tell = tell
        self._step = -1
        self._now_s = self._told_s = self._unreported_s = 0.0

    def is_needed(self, counters: Counters) -> bool:
        """Whether the learner must not step before it has adopted a newer version."""
        return self.limit is not None and counters.c_steps(counters.oldest) >= self.limit

    def add(self, counters: Counters, seconds: float) -> None:
        """Count a turn of the wait, and report the wait when that is due."""
        if counters.step != self._step:
            self._step, self._now_s, self._told_s = counters.step, 0.0, 0.0
        self._now_s += seconds
        self._unreported_s += seconds
        if self._now_s >= self._told_s + _TOLD_S:
            self._told_s = self._now_s
            self._tell(counters, self._now_s)

    def take_s(self) -> float:
        """Seconds waited since the last call."""
        waited_s, self._unreported_s = self._unreported_s, 0.0
        return waited_s
