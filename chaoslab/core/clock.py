"""Seconds since the run began: wall time for real fleets, virtual time for the simulator.

Nothing else in the harness reads a clock; a function that needs the time takes it as an argument
or holds a `Clock`.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds since the run began, and the calendar time that goes with it."""

    def now_s(self) -> float:
        """Seconds since the run began; never decreases."""
        ...

    def wall(self) -> str:
        """The same instant as ISO 8601 in UTC with milliseconds."""
        ...


class WallClock:
    """Real time, starting at zero when it is built."""

    def __init__(self) -> None:
        self._origin_s = time.monotonic()

    def now_s(self) -> float:
        """Seconds since this clock was built."""
        return time.monotonic() - self._origin_s

    def wall(self) -> str:
        """Calendar time in UTC."""
        return _iso(datetime.now(UTC))


class VirtualClock:
    """Time that moves only when told; the same seed gives the same stamps."""

    def __init__(self, epoch: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._epoch = epoch
        self._now_s = 0.0

    def now_s(self) -> float:
        """Seconds that `advance_to` has granted so far."""
        return self._now_s

    def wall(self) -> str:
        """The epoch plus the virtual seconds."""
        return _iso(self._epoch + timedelta(seconds=self._now_s))

    def advance_to(self, time_s: float) -> None:
        """Move to `time_s`; moving back is refused with ValueError."""
        if time_s < self._now_s:
            raise ValueError(f"time cannot go back from {self._now_s} s to {time_s} s")
        self._now_s = time_s


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
