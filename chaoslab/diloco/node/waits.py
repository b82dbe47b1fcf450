"""Waits of a node's code, which a real node and a simulation do in their own ways.

    async def …: await phases.reach(…), hub.next_arrival(…), work.pause(…)
        a node        run_now ─► each wait blocks its thread; nothing is ever suspended
        a simulation  each wait suspends the code, until the virtual clock has come to its end

So there is one text of what waits, and no event loop in a node.
"""

import time
from collections.abc import Coroutine
from typing import Any, TypeVar

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
