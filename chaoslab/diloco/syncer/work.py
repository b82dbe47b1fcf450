"""Work off the main thread: long jobs on other threads, their ends on the thread that owns state.

    main thread ── at_once(job, then) ──► a pool ─────────────────┐ result
                ── in_order(job, then) ─► one thread, in order ───┤
                ◄─ finish(): then(result) ◄── wake ◄──────────────┘

Jobs read what they were given; only `then`, on the main thread, changes the state that decisions
depend on. So the main thread stays free for messages whatever a merge or the disk takes.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_MOST = 4
"""Threads beyond which the memory is the limit."""


class Work:
    """Long jobs on threads of this process. For the main thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called, on any thread, when a job has ended."""
        self.closing = threading.Event()
        """Set when jobs that wait for something outside are to give up."""
        self._wake = wake
        self._pool = ThreadPoolExecutor(min(_MOST, os.cpu_count() or 1), thread_name_prefix="work")
        self._ordered = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._ended: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def at_once(self, job: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do the job beside others; `then` gets its result in a later `finish`."""
        self._follow(self._pool.submit(job), then)

    def in_order(self, job: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do the job after those that were given here before; `then` likewise."""
        self._follow(self._ordered.submit(job), then)

    def finish(self) -> None:
        """Call `then` of the jobs that have ended; raises what a job raised."""
        while True:
            try:
                end = self._ended.get_nowait()
            except Empty:
                return
            end()

    def close(self) -> None:
        """Return when all jobs have ended; those that only wait give up."""
        self.closing.set()
        self._pool.shutdown()
        self._ordered.shutdown()

    def _follow(self, future: Future[T], then: Callable[[T], None]) -> None:
        def end(ended: Future[T]) -> None:  # naming `future` here would keep its result: a cycle
            self._ended.put(lambda: then(ended.result()))
            self._wake()

        future.add_done_callback(end)
