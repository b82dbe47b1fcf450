r"""Keyboard or pipe of a game-day, read on a thread of its own.

file descriptor ─► thread ─► take(b"go half-dies\n"), at the end take(b"")

A terminal stays as it is: the line that is being typed is edited by its driver.
"""

import os
import select
from collections.abc import Callable
from threading import Thread
from typing import Final, Self

_MOST_BYTES: Final = 4096


class Reader:
    """Reads a file descriptor until it ends, or until the block is left."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        """`take` is called on the thread; no bytes: nothing more comes."""
        self._fd, self._take = fd, take
        self._thread = Thread(target=self._read, name="keyboard", daemon=True)

    def __enter__(self) -> Self:
        self._wake, self._stop = os.pipe()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._stop)  # which the thread can read as an end
        self._thread.join()
        os.close(self._wake)

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._fd, self._wake], [], [])
            if self._wake in ready:
                return
            data = self._next()
            if data is None:
                continue
            self._take(data)
            if not data:
                return

    def _next(self) -> bytes | None:
        """What has come. No bytes: nothing more comes. None: Ctrl-D at a terminal, which ends
        nothing.
        """
        try:
            data = os.read(self._fd, _MOST_BYTES)
        except OSError:  # the terminal was closed
            return b""
        return None if not data and os.isatty(self._fd) else data


def is_at_hand(fd: int) -> bool:
    """Whether it is a terminal that this process may read: not one of a job in the background."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
