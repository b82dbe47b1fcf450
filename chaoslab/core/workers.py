"""Processes that share a calculation: each begins anew, whatever this one has loaded."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait

_END_S = 10.0
"""Time in which running jobs may remove their temporary files."""


@contextmanager
def workers(number: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes; what has not begun is dropped when the caller leaves early.

    They are not forked: a fork of a process with threads, such as those of JAX, may hang.
    """
    pool = ProcessPoolExecutor(number, get_context("spawn"), _serve_the_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _serve_the_parent() -> None:
    """Ctrl-C reaches every process of a terminal; this one is ended by its parent, or after it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """End if the parent was killed: no other process would tell this one to."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_END_S)
        os._exit(1)
