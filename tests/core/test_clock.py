"""Wall time."""

import time

import pytest

from chaoslab.core.clock import Clock, WallClock
from tests.contracts.clock_kit import ClockKit


class TestWallClock(ClockKit):
    @pytest.fixture
    def clock(self) -> Clock:
        return WallClock()

    def move(self, clock: Clock, seconds: float) -> None:
        time.sleep(seconds)
