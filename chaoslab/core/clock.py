"""Clock of a run: seconds since it began, and the calendar time.

No other module of the harness reads a clock; a function that needs the time takes it as an argument
or holds a `Clock`.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds since the run began, and the calendar time."""

    def now_s(self) -> float:
        """Seconds since the run began; never decreases."""
        ...

    def wall(self) -> str:
        """The calendar time as ISO 8601 in UTC with milliseconds."""
        ...

    def sleep_until(self, time_s: float) -> None:
        """Return when the clock shows `time_s`; at once if it does already."""
        ...


class WallClock:
    """Real time in seconds since the clock was created."""

    def __init__(self) -> None:
        self._origin_s = time.monotonic()

    def now_s(self) -> float:
        """Seconds since this clock was created."""
        return time.monotonic() - self._origin_s

    def wall(self) -> str:
        """Calendar time in UTC."""
        return iso(datetime.now(UTC))

    def sleep_until(self, time_s: float) -> None:
        """Sleep; at real-time priority the kernel adds no slack to it."""
        time.sleep(max(0.0, time_s - self.now_s()))


def iso(moment: datetime) -> str:
    """The moment as ISO 8601 in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
