"""Waiting for what a test cannot be told of, by asking again and again."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""Far more than anything takes; only a failing test waits for it."""


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask again and again; fails after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)
