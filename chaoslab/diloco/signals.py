"""The signals that a learner obeys, and the test hook among them that wedges its training thread.

    SIGTERM ─► leave after the current step        SIGUSR1 ─► hang, as a stuck collective would
    SIGHUP  ─► the notice of a preemption          SIGUSR2 ─► go on

Python runs signal handlers on the main thread, where training is: a wedged learner's other threads
live on, and so do its heartbeats.
"""

import signal
import time
from types import FrameType
from typing import Protocol


class Trainee(Protocol):
    """A training thread that can be spoken to."""

    def ask_to_leave(self, reason: str) -> None:
        """Leave after the current step."""
        ...

    def note_preemption(self) -> None:
        """A preemption has been announced."""
        ...


def obey_signals(learner: Trainee) -> None:
    """SIGTERM leaves, SIGHUP announces, SIGUSR1 wedges this thread until SIGUSR2."""
    wedged = False

    def wedge(_signal: int, _frame: FrameType | None) -> None:
        nonlocal wedged
        wedged = True
        while wedged:
            time.sleep(0.02)

    def release(_signal: int, _frame: FrameType | None) -> None:
        nonlocal wedged
        wedged = False

    signal.signal(signal.SIGTERM, lambda *_: learner.ask_to_leave("asked"))
    signal.signal(signal.SIGHUP, lambda *_: learner.note_preemption())
    signal.signal(signal.SIGUSR1, wedge)
    signal.signal(signal.SIGUSR2, release)
