"""Wall time and virtual time."""

import time

import pytest

from chaoslab.core.clock import Clock, WallClock
from tests.contracts.clock_kit import ClockKit
from tests.virtual_clock import VirtualClock


class TestWallClock(ClockKit):
    @pytest.fixture
    def clock(self) -> Clock:
        return WallClock()

    def move(self, clock: Clock, seconds: float) -> None:
        time.sleep(seconds)


class TestVirtualClock(ClockKit):
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock()

    def move(self, clock: Clock, seconds: float) -> None:
        assert isinstance(clock, VirtualClock)
        clock.advance_to(clock.now_s() + seconds)

    def test_it_stands_still_until_it_is_told(self, clock: VirtualClock) -> None:
        assert (clock.now_s(), clock.wall()) == (clock.now_s(), clock.wall())

    def test_it_refuses_to_go_back(self, clock: VirtualClock) -> None:
        clock.advance_to(2.0)
        with pytest.raises(ValueError, match="cannot go back"):
            clock.advance_to(1.0)

    def test_two_clocks_told_the_same_show_the_same(self, clock: VirtualClock) -> None:
        other = VirtualClock()
        for one in (clock, other):
            one.advance_to(61.5)
        assert clock.wall() == other.wall() == "2026-01-01T00:01:01.500Z"
