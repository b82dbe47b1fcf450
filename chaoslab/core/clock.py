"""Clock of a run: seconds since it began, and the calendar time.

Nothing else in the harness reads a clock; a function that needs the time takes it as an argument
or holds a `Clock`.
"""

import time
from datetime import UTC, datetime
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
        return iso(datetime.now(UTC))


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
