"""Large buffers that are used again, because the kernel zeroes every page of a new one.

    take(size) ─► a view of a kept buffer that nothing refers to, or of a new one

A new buffer of 64 MiB costs as much as copying a third of it. Small ones need no help: the memory
allocator keeps what is freed.
"""

import sys
import threading

import numpy as np
from numpy.typing import NDArray

_LEAST_BYTES = 4 << 20


class Buffers:
    """Buffers of at least 4 MiB that are kept for the next use, `kept` of them. Thread-safe.

    A buffer is free when only this object refers to it; a view of it is a reference.
    """

    def __init__(self, *, kept: int, most_bytes: int | None = None) -> None:
        """`most_bytes`: a larger buffer is not kept."""
        self._most, self._most_bytes = kept, most_bytes
        self._kept: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """An uninitialised buffer of `size` bytes, aligned. MemoryError."""
        if size < _LEAST_BYTES or (self._most_bytes is not None and size > self._most_bytes):
            return np.empty(size, np.uint8)
        with self._lock:
            for index in range(len(self._kept)):
                if size <= len(self._kept[index]) <= 2 * size and self._is_free(index):
                    return self._kept[index][:size]
            fresh = np.empty(size, np.uint8)
            self._kept = [*self._kept, fresh][-self._most :]
            return fresh[:size]

    def floats(self, count: int) -> NDArray[np.float32]:
        """An uninitialised float32 [count]. MemoryError."""
        return self.take(4 * count).view(np.float32)

    def _is_free(self, index: int) -> bool:
        return sys.getrefcount(self._kept[index]) == _UNUSED


_probe = [np.empty(0, np.uint8)]
_UNUSED = sys.getrefcount(_probe[0])
"""Reference count of an object that only one list holds, as this interpreter counts."""
