"""Pace of a simulated learner: when a step ends, by the chip that it emulates.

    no step time   its own duration, stretched by speed and slowness
    step time      the next place on a grid: period = step time / speed x factor

The same rules as `diloco.learner.pace`, without waiting.
"""

import math
from collections.abc import Mapping

from chaoslab.core.events import Json


class Pace:
    """Pace of one training thread."""

    def __init__(self, *, step_time_s: float | None, speed: float) -> None:
        self._given_s = self._step_time_s = step_time_s
        self._speed = speed
        self._factor = 1.0
        self._due_s: float | None = None
        self.overruns = 0
        """Periods lost so far, because steps ended more than a whole one late."""

    @property
    def period_s(self) -> float | None:
        """Seconds from the end of one step to that of the next; None without a step time."""
        if self._step_time_s is None:
            return None
        return self._step_time_s / self._speed * self._factor

    def apply_slow_hook(self, facts: Mapping[str, Json]) -> None:
        """Make steps `factor` times as long; without facts, as usual."""
        self._factor = max(1.0, float(str(facts.get("factor", 1.0))))

    def apply_pace_hook(self, facts: Mapping[str, Json]) -> None:
        """Keep the step time `step_s`; without facts, that of the command line."""
        asked = facts.get("step_s")
        self._step_time_s = self._given_s if asked is None else float(str(asked))

    def restart(self) -> None:
        """Begin the grid anew: the learner has waited for others, which is no overrun."""
        self._due_s = None

    def ends_s(self, began_s: float, takes_s: float) -> float:
        """When a step ends that began now and takes so long without pace."""
        period_s = self.period_s
        if period_s is None:
            self._due_s = None
            return began_s + takes_s / self._speed * self._factor
        due_s = (began_s if self._due_s is None else self._due_s) + period_s
        ends_s = began_s + takes_s
        if ends_s <= due_s:
            self._due_s = due_s
            return due_s
        lost = math.floor((ends_s - due_s) / period_s)
        self.overruns += lost
        self._due_s = due_s + lost * period_s
        return ends_s
