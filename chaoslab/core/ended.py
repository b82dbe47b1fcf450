"""Questions to a pod or a process that may end meanwhile."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from chaoslab.core.errors import FleetError

ENDED_S: Final = 10.0
"""How long a cluster may take to say that a container has ended in which nothing can be done."""
_LOOK_S: Final = 0.1
_Answer = TypeVar("_Answer")


def unless_ended(
    asked: Callable[[], _Answer], has_ended: Callable[[], bool], within_s: float = ENDED_S
) -> _Answer | None:
    """The answer; None if the process that was asked has ended. FleetError if it goes on and does
    not answer.
    """
    try:
        return asked()
    except FleetError:  # it may have ended just now, and this may not be known yet
        deadline = time.monotonic() + within_s
        while not has_ended():
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_S)
        return None
