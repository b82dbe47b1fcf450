"""The signals that a learner obeys, and the test hook among them that wedges its training thread.

    SIGTERM ─► leave after the current step        SIGUSR1 ─► hang, as a stuck collective would
    SIGHUP  ─► the notice of a preemption          SIGUSR2 ─► go on

Python runs signal handlers on the main thread, where training is, between any two of its
instructions: also while it holds a lock that the threads of the link need. So SIGUSR1 hangs at once
only where `Wedge.allowed` says that no such lock is held, which is inside a step, however long it
is; anywhere else it is noted, and the thread hangs at the next such place. A wedged learner's other
threads live on, and so do its heartbeats.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_AGAIN_S = 0.02


class Wedge:
    """Hangs the thread that uses it, from `ask` until `release`. Both are called by handlers."""

    def __init__(self) -> None:
        self.is_asked = False
        """It hangs, or will at the next place where it may."""
        self._is_allowed = False

    def ask(self) -> None:
        """Hang: here, if that is allowed where the signal came."""
        self.is_asked = True
        if self._is_allowed:
            self._hang()

    def release(self) -> None:
        """Go on."""
        self.is_asked = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """In this block the thread holds no lock that another one of the learner's needs."""
        self._is_allowed = True
        try:
            self._hang()
            yield
        finally:
            self._is_allowed = False

    def _hang(self) -> None:
        while self.is_asked:
            time.sleep(_AGAIN_S)


class Trainee(Protocol):
    """A training thread that can be spoken to."""

    wedge: Wedge

    def ask_to_leave(self, reason: str) -> None:
        """Leave after the current step."""
        ...

    def note_preemption(self) -> None:
        """A preemption has been announced."""
        ...


def obey_signals(learner: Trainee) -> None:
    """SIGTERM leaves, SIGHUP announces, SIGUSR1 wedges this thread until SIGUSR2."""
    signal.signal(signal.SIGTERM, lambda *_: learner.ask_to_leave("asked"))
    signal.signal(signal.SIGHUP, lambda *_: learner.note_preemption())
    signal.signal(signal.SIGUSR1, lambda *_: learner.wedge.ask())
    signal.signal(signal.SIGUSR2, lambda *_: learner.wedge.release())
