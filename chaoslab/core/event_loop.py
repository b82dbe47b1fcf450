"""Event loop on a thread of its own, for threads that call and wait.

harness ── run(coroutine) ──► loop ──► hosts or links, side by side
◄── result, or error ──┘
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import Any, TypeVar

from chaoslab.core.errors import FleetError

ResultT = TypeVar("ResultT")


class EventLoop:
    """A running loop. `close` ends it; safe to repeat."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="event loop", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT], *, within_s: float) -> ResultT:
        """The result of a coroutine, or its error. FleetError if it takes longer."""
        future = self.begin(work)
        try:
            return future.result(within_s)
        except TooLate as error:
            if not future.cancel():
                raise
            raise FleetError(f"no answer within {within_s:g} s") from error

    def begin(self, work: Coroutine[Any, Any, ResultT]) -> "Future[ResultT]":
        """Begin a coroutine whose result is asked for later, or never."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def together(
        self, works: Iterable[Coroutine[Any, Any, ResultT]], *, within_s: float
    ) -> list[ResultT | BaseException]:
        """The result or error of each, all begun at once."""

        async def gathered() -> list[ResultT | BaseException]:
            return await asyncio.gather(*works, return_exceptions=True)

        return self.run(gathered(), within_s=within_s)

    def close(self) -> None:
        """End everything that still runs, and the thread."""
        if self._loop.is_closed():
            return
        self.run(_end_others(), within_s=10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def first_error(results: Iterable[object]) -> None:
    """Raise the first error among results, once all of them are there."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
