"""Clocks of one simulated process: monotonic and wall time, which a fault may step or let drift."""

from collections.abc import Callable, Mapping

from chaoslab.core.events import Json
from chaoslab.diloco.node.clocks import READ_S
from chaoslab.sim.clock import SimClock


class NodeClocks:
    """Clocks of one process; true until they are set, and read again and again until they are so
    again.
    """

    def __init__(
        self,
        clock: SimClock,
        read: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`read` reports them; `later` does something in so many seconds."""
        self._clock, self._read, self._later = clock, read, later
        self._started_s = clock.time_s
        self._rate, self._step_s = 1.0, 0.0
        self._drifted_s = 0.0
        """Drift of the monotonic clock until its rate was set last."""
        self._rated_s = 0.0
        """Time at which the rate was set last."""
        self._is_touched = False

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """The hook `clock`; empty facts end it."""
        was_touched = self._is_touched
        if not was_touched and not facts:
            return
        if not was_touched:
            self._read()
        self._set(facts)
        self._read()
        if not was_touched:
            self._later(READ_S, self._go_on_reading)

    def _go_on_reading(self) -> None:
        if self._is_touched:
            self._read()
            self._later(READ_S, self._go_on_reading)

    def _set(self, facts: Mapping[str, Json]) -> None:
        """Let them run at `rate`, the wall clock `step_s` ahead; empty facts end both."""
        now_s = self._clock.time_s
        self._drifted_s += self._drift_s(now_s)
        self._rated_s = now_s
        self._rate, self._step_s = _number(facts, "rate", 1.0), _number(facts, "step_s", 0.0)
        self._is_touched = bool(facts)

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
