"""Clocks of one simulated process: monotonic and wall time, which a fault may step or let drift."""

from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.sim.clock import SimClock


class NodeClocks:
    """Clocks of one process; true until they are set."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._started_s = clock.time_s
        self._rate, self._step_s = 1.0, 0.0
        self._drifted_s = 0.0
        """Drift of the monotonic clock until its rate was set last."""
        self._rated_s = 0.0
        """Time at which the rate was set last."""
        self.is_touched = False

    def set(self, facts: Mapping[str, Json]) -> None:
        """Let them run at `rate`, the wall clock `step_s` ahead; empty facts end both."""
        now_s = self._clock.time_s
        self._drifted_s += self._drift_s(now_s)
        self._rated_s = now_s
        self._rate, self._step_s = _number(facts, "rate", 1.0), _number(facts, "step_s", 0.0)
        self.is_touched = bool(facts)

    @property
    def monotonic_s(self) -> float:
        """Seconds since the process started, by its own clock."""
        now_s = self._clock.time_s
        return now_s - self._started_s + self._drifted_s + self._drift_s(now_s)

    @property
    def wall_s(self) -> float:
        """Seconds since the epoch, by its own clock."""
        return self._clock.wall_s + self._step_s + self._drift_s(self._clock.time_s)

    def _drift_s(self, now_s: float) -> float:
        """Drift since the rate was set last."""
        return (self._rate - 1.0) * (now_s - self._rated_s)


def _number(facts: Mapping[str, Json], key: str, default: float) -> float:
    value = facts.get(key, default)
    return float(value) if isinstance(value, int | float) else default
