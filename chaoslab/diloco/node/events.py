"""Event output of a node: one JSON event per line on standard output.

Any program that prints such lines is a node (`chaoslab.core.events`).
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from chaoslab.core.events import Payload, node_line

Emit: TypeAlias = Callable[[Payload], None]
"""Reports an event."""


_printing = threading.Lock()
_born_s = time.monotonic()


def _be_born() -> None:
    global _born_s  # noqa: PLW0603 - a fork is a process of its own
    _born_s = time.monotonic()


os.register_at_fork(after_in_child=_be_born)


def now_s() -> float:
    """Seconds since this process started, by its monotonic clock."""
    return time.monotonic() - _born_s


def silent(said: Payload) -> None:
    """Report nothing."""


def say(said: Payload) -> None:
    """Print one event as one whole line. Thread-safe."""
    line = node_line(said, node_s=now_s())
    with _printing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
