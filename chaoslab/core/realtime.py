"""Being on time on a machine whose cores are all busy, with the very training that is to be broken.

A thread that waits for a core while it holds the next signal in its hand injects late, and hits the
second victim long after the first. Where the kernel lets us ask (it needs a privilege that ordinary
users do not have), a stretch of code that is urgent runs before everything that is not; elsewhere
it runs like everything else. Such a stretch is short: nothing in it may compute for long.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_LOWEST_URGENCY = 1


@contextmanager
def first_in_line(*, is_urgent: bool = True) -> Iterator[None]:
    """Nothing ordinary takes the core from this thread meanwhile; its children are not included."""
    if not is_urgent:
        yield
        return
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_LOWEST_URGENCY))
    except (AttributeError, OSError):  # another system, or no right to: later, then
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)
