"""Test hook of a learner that hangs its training thread, and continues it.

    SIGUSR1 ─► hang, as a stuck collective would        SIGUSR2 ─► continue

Python runs signal handlers on the main thread, where training is, between any two of its
instructions: also while it holds a lock that the threads of the link need. So SIGUSR1 hangs at once
only where `Wedge.allowed` says that no such lock is held, which is inside a step; elsewhere the
request is noted, and the thread hangs at the next such place. The other threads of the learner
continue, and so do its heartbeats.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_AGAIN_S = 0.02


class Wedge:
    """Hangs the thread that uses it, from `ask` until `release`; both are called by handlers."""

    def __init__(self) -> None:
        self.is_asked = False
        """A hang is requested: now, or at the next place where it is allowed."""
        self._is_allowed = False

    def install_handlers(self) -> None:
        """Install handlers of this process: SIGUSR1 hangs, SIGUSR2 continues."""
        signal.signal(signal.SIGUSR1, lambda *_: self.ask())
        signal.signal(signal.SIGUSR2, lambda *_: self.release())

    def ask(self) -> None:
        """Hang now if that is allowed here, otherwise at the next such place."""
        self.is_asked = True
        if self._is_allowed:
            self._hang()

    def release(self) -> None:
        """End the hang, or cancel one that has not begun."""
        self.is_asked = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Block in which the thread holds no lock that another thread of the learner needs."""
        self._is_allowed = True
        try:
            self._hang()
            yield
        finally:
            self._is_allowed = False

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Block in which the main thread may hold such a lock; it hangs afterwards, if allowed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        was_allowed, self._is_allowed = self._is_allowed, False
        try:
            yield
        finally:
            self._is_allowed = was_allowed
            if was_allowed:
                self._hang()

    def _hang(self) -> None:
        while self.is_asked:
            time.sleep(_AGAIN_S)
