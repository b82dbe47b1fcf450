"""A clock that moves only when told: the same calls give the same stamps."""

from datetime import UTC, datetime, timedelta

from chaoslab.core.clock import iso


class VirtualClock:
    """Implements `core.clock.Clock`."""

    def __init__(self, epoch: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._epoch = epoch
        self._now_s = 0.0

    def now_s(self) -> float:
        return self._now_s

    def wall(self) -> str:
        return iso(self._epoch + timedelta(seconds=self._now_s))

    def sleep_until(self, time_s: float) -> None:
        self._now_s = max(self._now_s, time_s)

    def advance_to(self, time_s: float) -> None:
        """ValueError if that is in the past."""
        if time_s < self._now_s:
            raise ValueError(f"time cannot go back from {self._now_s} s to {time_s} s")
        self._now_s = time_s
