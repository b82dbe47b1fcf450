"""Virtual clock of a simulation, and the heap of everything that is still to happen in it.

    at(12.5, act) ─► heap of (time, priority, number) ─► run_next: the clock shows 12.5, then act()

Time goes on from event to event. Events of one time happen by priority, then in the order in which
they were asked for, so that nothing depends on a hash, a thread or the machine. If time hardly goes
on any more, that is an error and not a simulation that never ends.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
EVENTS_MOST = 3_000_000
"""In one simulated second; a learner with steps of 40 ms has about 130, and a plan at most 10,000
learners."""


class Livelock(FleetError):
    """Too many events in one simulated second: simulated time does not advance."""


class SimClock:
    """Implements `core.clock.Clock`; it begins at midnight of 1 January 2000, UTC."""

    __slots__ = ("_real", "_second", "_shown", "_speed", "time_s")

    def __init__(self, speed: float | None = None) -> None:
        """`speed`: see `keep_pace`."""
        self.time_s = 0.0
        """Simulated seconds since the beginning."""
        self._speed, self._real = speed, WallClock()
        self._second, self._shown = -1, ""
        """The latest second that was asked for, and the text of it."""

    def now_s(self) -> float:
        """Simulated seconds since the beginning."""
        return self.time_s

    def wall(self) -> str:
        """The calendar time of the simulation."""
        second, milliseconds = divmod(round(self.time_s * 1e6) // 1000, 1000)
        if second != self._second:
            shown = (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds")
            self._second, self._shown = second, shown.removesuffix("+00:00")
        return f"{self._shown}.{milliseconds:03d}Z"

    @property
    def wall_s(self) -> float:
        """The same in seconds since the epoch of Unix."""
        return _EPOCH.timestamp() + self.time_s

    def sleep_until(self, time_s: float) -> None:
        """The clock shows that time at once; what was to happen until then is caught up with."""
        self.time_s = max(self.time_s, time_s)

    def keep_pace(self) -> None:
        """Wait until the machine's time has caught up, of which one second is `speed` simulated
        ones; without a speed not at all.
        """
        if self._speed is not None:
            self._real.sleep_until(self.time_s / self._speed)


class Priority(IntEnum):
    """Order of events at one time."""

    ARRIVAL = 0
    WORK = 1
    DEADLINE = 2


class Timer(list[Any]):
    """Something that will happen, unless it is cancelled: time, priority, number, and what to do.

    A list, which is made and compared faster than anything else that can be changed.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Prevent the event; safe to repeat."""
        self[3] = None


class EventQueue:
    """All events to come."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self._heap: list[Timer] = []
        self._number = 0
        self._second_ends_s = 0.0
        self._events = 0
        """Events since the present simulated second began."""

    @property
    def now_s(self) -> float:
        """Present simulated time."""
        return self.clock.time_s

    @property
    def next_s(self) -> float:
        """Time of the next event; infinite without one."""
        heap = self._heap
        while heap and heap[0][3] is None:
            heapq.heappop(heap)
        return float(heap[0][0]) if heap else math.inf

    def at(
        self, time_s: float, act: Callable[[], None], priority: Priority = Priority.WORK
    ) -> Timer:
        """Let something happen at a time; what is past happens next."""
        self._number += 1
        timer = Timer((time_s, priority, self._number, act))
        heapq.heappush(self._heap, timer)
        return timer

    def after(
        self, delay_s: float, act: Callable[[], None], priority: Priority = Priority.WORK
    ) -> Timer:
        """Let something happen this many seconds from now."""
        self._number += 1
        timer = Timer((self.clock.time_s + delay_s, priority, self._number, act))
        heapq.heappush(self._heap, timer)
        return timer

    def run_until(self, until_s: float, news: Sequence[object]) -> None:
        """Let happen what is due until then, one event after the other, until there is news."""
        heap = self._heap
        while heap and not news and heap[0][0] <= until_s:
            self.run_next()

    def run_next(self) -> None:
        """Let the next event happen, unless it was cancelled; there must be one. Livelock after too
        many at one time.
        """
        time_s, _, _, act = heapq.heappop(self._heap)
        if act is None:
            return
        if time_s >= self._second_ends_s:
            self._second_ends_s, self._events = math.floor(time_s) + 1.0, 0
        self._events += 1
        if self._events > EVENTS_MOST:
            raise Livelock(
                f"livelock: {EVENTS_MOST:,} events within a second of simulated time, at "
                f"{time_s:.6f} s"
            )
        clock = self.clock
        clock.time_s = time_s if time_s > clock.time_s else clock.time_s
        act()

    def catch_up(self) -> None:
        """Let everything happen that is due by now."""
        self.run_until(self.clock.time_s, ())
