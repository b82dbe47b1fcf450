"""Scheduling priority for short, time-critical sections of the harness.

All cores may be busy with the training under test. A thread that waits for a core before it sends
the next signal injects late and reaches the second target long after the first. With the privilege
to do so, such a section runs before all ordinary threads; without it, at normal priority. A section
must be short and must not compute for long.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOWEST_PRIORITY = 1


@contextmanager
def realtime_priority(*, is_urgent: bool = True) -> Iterator[None]:
    """Run the block at real-time priority if permitted; child processes do not inherit it."""
    if not is_urgent:
        yield
        return
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(_LOWEST_PRIORITY))
    except (AttributeError, OSError):  # not Linux, or no privilege
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def prefer_process(pid: int) -> None:
    """Let all threads of a process run before ordinary ones from now on, if permitted: one that is
    about to be killed, as nothing takes it back.
    """
    with suppress(AttributeError, OSError):  # not Linux, no privilege, or gone
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(ProcessLookupError):  # that thread has ended
                os.sched_setscheduler(int(thread), policy, os.sched_param(_LOWEST_PRIORITY))


def is_realtime_permitted() -> bool:
    """Whether this process may have that priority, found by asking for it for a moment."""
    if not hasattr(os, "sched_getscheduler"):
        return False
    with realtime_priority():
        return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
