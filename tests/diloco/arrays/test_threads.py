"""Loops over blocks: every block once, results in order, whatever the threads."""

import threading

import pytest

from chaoslab.diloco.arrays.threads import INLINE, Threads, blocks


def test_blocks_cover_everything_once() -> None:
    assert blocks(0, 4) == []
    assert blocks(9, 4) == [slice(0, 4), slice(4, 8), slice(8, 9)]


@pytest.mark.parametrize("threads", [INLINE, Threads(2), Threads(3)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_results_are_in_the_order_of_the_blocks(threads: Threads, count: int) -> None:
    parts = blocks(7 * count, 7)
    assert threads.each(lambda part: part.start, parts) == [part.start for part in parts]


def test_blocks_are_worked_on_side_by_side() -> None:
    both = threading.Barrier(2, timeout=60)
    Threads(2).each(lambda _: both.wait(), blocks(2, 1))


def test_what_one_thread_raises_is_raised() -> None:
    def divide(part: slice) -> float:
        return 1 / (part.start - 1)

    with pytest.raises(ZeroDivisionError):
        Threads(2).each(divide, blocks(4, 1))
