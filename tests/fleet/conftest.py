"""Fixtures of all tests of fleets."""

import pytest

from tests.fleet.local_stage import Remembered


@pytest.fixture
def undo_log() -> Remembered:
    """What a fleet would have to undo."""
    return Remembered()
