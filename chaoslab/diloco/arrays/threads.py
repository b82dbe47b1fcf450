"""Threads for loops over blocks of large arrays: NumPy works without the interpreter lock.

    each(function, blocks) ─┬─► this thread: blocks 0, 2, …  ─┐
                            └─► another:     blocks 1, 3, …  ─┴─► results, in order of the blocks

What a block gives must not depend on other blocks: then the result does not depend on the threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

P = TypeVar("P")
T = TypeVar("T")

_MOST = 4
"""Threads beyond which the memory is the limit."""


class Threads:
    """The calling thread and `count - 1` others. Several threads may call `each` at once."""

    def __init__(self, count: int | None = None) -> None:
        """`count`: None for one thread per core, at most four."""
        self.count = min(_MOST, os.cpu_count() or 1) if count is None else count
        self._others = (
            ThreadPoolExecutor(self.count - 1, thread_name_prefix="blocks")
            if self.count > 1
            else None
        )

    def each(self, function: Callable[[P], T], parts: Sequence[P]) -> list[T]:
        """`function` of every part, in order; an exception of one of them is raised."""
        if self._others is None or len(parts) < 2:
            return [function(part) for part in parts]
        shares = [parts[number :: self.count] for number in range(self.count)]
        others = [
            self._others.submit(lambda share: [function(part) for part in share], share)
            for share in shares[1:]
        ]
        found: list[list[T]] = [[function(part) for part in shares[0]]]
        found += [other.result() for other in others]
        return [found[number % self.count][number // self.count] for number in range(len(parts))]


INLINE = Threads(1)
"""No other threads."""


def blocks(size: int, block: int) -> list[slice]:
    """Slices of at most `block` that cover `size`."""
    return [slice(start, min(start + block, size)) for start in range(0, size, block)]
