"""Event output of a node: one JSON event per line on standard output.

Any program that prints such lines is a node (`chaoslab.core.events`).
"""

import os
import sys
import threading
import time
from typing import Any, Protocol

from chaoslab.core.events import Payload, node_line


class Emit(Protocol):
    """Reports an event; the caller for a node adds which node it is."""

    def __call__(self, said: type[Payload], /, **fields: Any) -> None:
        """`fields`: those of the payload."""


_printing = threading.Lock()
_born_s = time.monotonic()


def _be_born() -> None:
    global _born_s  # noqa: PLW0603 - a fork is a process of its own
    _born_s = time.monotonic()


os.register_at_fork(after_in_child=_be_born)


def now_s() -> float:
    """Seconds since this process started, by its monotonic clock."""
    return time.monotonic() - _born_s


def silent(said: type[Payload], /, **fields: Any) -> None:
    """Report nothing."""


def say(said: type[Payload], /, **fields: Any) -> None:
    """Print one event as one whole line. Thread-safe."""
    line = node_line(said(**fields), node_s=now_s())
    with _printing:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
