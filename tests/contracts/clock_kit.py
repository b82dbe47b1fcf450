"""What every clock promises. A clock's tests subclass the kit and say how to make and move it."""

import re
from datetime import datetime

from chaoslab.core.clock import Clock


class ClockKit:
    """Subclasses provide the fixture `clock` and `move(clock, seconds)`."""

    def move(self, clock: Clock, seconds: float) -> None:
        """Let at least so much time go by."""
        raise NotImplementedError

    def test_it_begins_near_zero(self, clock: Clock) -> None:
        assert 0.0 <= clock.now_s() < 60.0

    def test_it_never_goes_back(self, clock: Clock) -> None:
        stamps = []
        for _ in range(50):
            stamps.append(clock.now_s())
            self.move(clock, 0.0002)
        assert stamps == sorted(stamps)
        assert stamps[0] < stamps[-1]

    def test_seconds_are_seconds(self, clock: Clock) -> None:
        began_s, begin, left_s = clock.now_s(), moment(clock), clock.now_s()
        self.move(clock, 0.05)
        back_s, end, ended_s = clock.now_s(), moment(clock), clock.now_s()
        assert back_s - left_s >= 0.05
        passed_s = (end - begin).total_seconds()
        assert back_s - left_s - 1.0 < passed_s < ended_s - began_s + 1.0

    def test_a_sleep_ends_when_the_clock_shows_the_time(self, clock: Clock) -> None:
        until_s = clock.now_s() + 0.003
        clock.sleep_until(until_s)
        assert clock.now_s() >= until_s

    def test_there_is_no_sleep_until_what_is_past(self, clock: Clock) -> None:
        before_s = clock.now_s()
        clock.sleep_until(-3600.0)
        assert before_s <= clock.now_s() < before_s + 60.0

    def test_the_wall_is_utc_to_the_millisecond(self, clock: Clock) -> None:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", clock.wall())


def moment(clock: Clock) -> datetime:
    """The wall time, parsed."""
    return datetime.fromisoformat(clock.wall())
