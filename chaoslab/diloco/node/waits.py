"""Waits of a node's code, which a real node and a simulation do in their own ways.

    async def …: await phases.reach(…), hub.next_arrival(…), work.pause(…)
        a node        run_now ─► each wait blocks its thread; nothing is ever suspended
        a simulation  each wait suspends the code, until the virtual clock has come to its end

So there is one text of what waits, and no event loop in a node.
"""

import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


def run_now(code: Coroutine[Any, Any, T]) -> T:
    """Result of code whose waits block this thread; it runs here, to its end."""
    try:
        code.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError(f"{code} was suspended, and there is nothing here to resume it")


async def sleep(seconds: float) -> None:
    """Block this thread for a while."""
    time.sleep(seconds)


class Flag(Protocol):
    """What one thread waits for and another sets."""

    def is_set(self) -> bool: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    async def wait(self, seconds: float) -> bool:
        """Return once it is set, at the latest after this long; whether it is."""
        ...


class Waits(Protocol):
    """What a part of a node that has a thread of its own waits by."""

    def now_s(self) -> float:
        """Time of the node's clock."""
        ...

    def flag(self) -> Flag:
        """A new flag, not set."""
        ...

    def begin(self, name: str, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run code beside everything else; `name` is that of its thread."""
        ...


class ThreadWaits:
    """`Waits` that block a thread."""

    def now_s(self) -> float:
        """See `Waits`."""
        return time.monotonic()

    def flag(self) -> Flag:
        """See `Waits`."""
        return _Event()

    def begin(self, name: str, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Waits`."""
        threading.Thread(target=lambda: run_now(code()), name=name, daemon=True).start()


class _Event:
    def __init__(self) -> None:
        self._event = event = threading.Event()
        self.is_set, self.set, self.clear = event.is_set, event.set, event.clear

    async def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)
