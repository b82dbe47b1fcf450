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

    def test_it_refuses_to_go_back(self, clock: VirtualClock) -> None:
        clock.advance_to(2.0)
        with pytest.raises(ValueError, match=r"2\.0"):
            clock.advance_to(1.0)
