"""Buffers: used again only when nobody refers to them."""

import numpy as np

from chaoslab.diloco.arrays.buffers import Buffers

SIZE = 5 << 20


def address(buffer: np.ndarray) -> int:
    return int(buffer.__array_interface__["data"][0])


def test_a_buffer_is_used_again_when_its_last_view_is_gone() -> None:
    buffers = Buffers(kept=2)
    first = buffers.take(SIZE)
    view, where = first[10:20].view(np.uint16), address(first)
    del first
    second = buffers.take(SIZE)
    assert address(second) != where
    del view
    assert address(buffers.take(SIZE - 100)) == where


def test_a_memoryview_is_a_reference_too() -> None:
    buffers = Buffers(kept=1)
    payload = buffers.take(SIZE).data
    other = buffers.take(SIZE)
    other[:] = 1
    payload_is_intact = address(np.frombuffer(payload, np.uint8)) != address(other)
    assert payload_is_intact


def test_sizes_are_exact_and_much_larger_buffers_are_left_alone() -> None:
    buffers = Buffers(kept=2)
    large = buffers.take(3 * SIZE)
    where = address(large)
    del large
    assert len(small := buffers.take(SIZE)) == SIZE
    assert address(small) != where
    assert buffers.floats(1000).shape == (1000,)
    assert buffers.floats(SIZE).dtype == np.float32


def test_no_more_and_no_larger_buffers_are_kept_than_asked_for() -> None:
    buffers = Buffers(kept=1, most_bytes=SIZE)
    held = [buffers.take(size) for size in (SIZE, SIZE, 2 * SIZE, 100)]
    assert [len(one) for one in held] == [SIZE, SIZE, 2 * SIZE, 100]
    assert len(buffers._kept) == 1
