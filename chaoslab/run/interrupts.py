"""Interrupts of a run: counted signals that ask it to end, and the inbox of operators.

SIGINT, SIGTERM, SIGHUP ─► Interrupts.count ─► RunLoop: once heals and ends, twice shortens that
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from chaoslab.run.operators import Inbox

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@dataclass(slots=True, kw_only=True)
class Interrupts:
    """How often a person or a supervisor asked the run to end: once heals, twice shortens that."""

    count: int = 0
    inbox: Inbox | None = None
    """What operators of a game-day ask for; None: there are none."""


@contextmanager
def counted_signals(inbox: Inbox | None) -> Iterator[Interrupts]:
    """Count the signals that ask the harness to end, instead of ending; restored afterwards.

    A signal that is ignored (as SIGHUP under nohup) stays ignored. Only the main thread may do
    this; in another one signals go where they went.
    """
    interrupts = Interrupts(inbox=inbox)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def count(_number: int, _frame: FrameType | None) -> None:
        interrupts.count += 1

    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    before = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, count)
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
