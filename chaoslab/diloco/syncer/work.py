"""Work off the main thread: long jobs on other threads, their ends on the thread that owns state.

    main thread ── at_once(job, then) ──► a pool ─────────────────┐ result
                ── in_order(job, then) ─► one thread, in order ───┤
                ◄─ finish(): then(result) ◄── wake ◄──────────────┘

Jobs read what they were given; only `then`, on the main thread, changes the state that decisions
depend on. So the main thread stays free for messages whatever a merge or the disk takes.

Jobs in order consist of stages and waits (`node.waits`). A simulation has a `Jobs` of its own,
where both take time of its clock.
"""

import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias, TypeVar

from chaoslab.diloco.node.waits import Flag, ThreadWaits, run_now, sleep

T = TypeVar("T")
Job: TypeAlias = Callable[[], Coroutine[Any, Any, T]]
Then: TypeAlias = Callable[[T], Coroutine[Any, Any, None]]

_MOST = 4
"""Threads beyond which the memory is the limit."""


class Stage(StrEnum):
    """Part of a job in order that takes long."""

    MERGE = "merge"
    STORE = "store"
    PUBLISH = "publish"
    """Encoding a version."""


class Jobs(Protocol):
    """Long jobs, for the main thread: those of `Work`, or of a simulation."""

    def at_once(self, job: Callable[[], T], then: Then[T]) -> None:
        """Do the job beside others; `then` gets its result in a later `finish`."""
        ...

    def in_order(self, job: Job[T], then: Then[T]) -> None:
        """Do the job after those that were given here before; `then` likewise."""
        ...

    async def finish(self) -> None:
        """Call `then` of the jobs that have ended; raises what a job raised."""
        ...

    async def close(self) -> None:
        """Return when all jobs have ended; those that only wait give up."""
        ...

    # -- for jobs in order

    @property
    def is_closing(self) -> bool:
        """Whether jobs that wait for something outside are to give up."""
        ...

    async def stage(self, stage: Stage, do: Callable[[], T]) -> T:
        """What `do` gives."""
        ...

    async def pause(self, seconds: float) -> bool:
        """Wait until then, or until it is closing; whether it is."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, closing or not."""
        ...

    def flag(self) -> Flag:
        """A new flag, not set."""
        ...


class Work:
    """Long jobs on threads of this process: `Jobs`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called, on any thread, when a job has ended."""
        self._closing = threading.Event()
        self._wake = wake
        self._pool = ThreadPoolExecutor(min(_MOST, os.cpu_count() or 1), thread_name_prefix="work")
        self._ordered = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._ended: SimpleQueue[Callable[[], Coroutine[Any, Any, None]]] = SimpleQueue()

    def at_once(self, job: Callable[[], T], then: Then[T]) -> None:
        """See `Jobs.at_once`."""
        self._follow(self._pool.submit(job), then)

    def in_order(self, job: Job[T], then: Then[T]) -> None:
        """See `Jobs.in_order`."""
        self._follow(self._ordered.submit(lambda: run_now(job())), then)

    async def finish(self) -> None:
        """See `Jobs.finish`."""
        while True:
            try:
                end = self._ended.get_nowait()
            except Empty:
                return
            await end()

    async def close(self) -> None:
        """See `Jobs.close`."""
        self._closing.set()
        self._pool.shutdown()
        self._ordered.shutdown()

    @property
    def is_closing(self) -> bool:
        """See `Jobs.is_closing`."""
        return self._closing.is_set()

    async def stage(self, stage: Stage, do: Callable[[], T]) -> T:  # noqa: ARG002 - a simulation asks
        """See `Jobs.stage`."""
        return do()

    async def pause(self, seconds: float) -> bool:
        """See `Jobs.pause`."""
        return self._closing.wait(seconds)

    async def sleep(self, seconds: float) -> None:
        """See `Jobs.sleep`."""
        await sleep(seconds)

    def flag(self) -> Flag:
        """See `Jobs.flag`."""
        return ThreadWaits().flag()

    def _follow(self, future: Future[T], then: Then[T]) -> None:
        def end(ended: Future[T]) -> None:  # naming `future` here would keep its result: a cycle
            self._ended.put(lambda: then(ended.result()))
            self._wake()

        future.add_done_callback(end)
