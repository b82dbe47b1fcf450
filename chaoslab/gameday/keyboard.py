r"""Keyboard or pipe of a game-day, read on a thread of its own, and the terminal put back after it.

file descriptor ─► thread ─► take(b"go half-dies\n"), at the end take(b"")
"""

import os
import select
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final, Self

_MOST_BYTES: Final = 4096
_FLAGS, _LOCAL, _CONTROLS = 0, 3, 6
"""Places in what `termios.tcgetattr` returns."""
_STOPPING: Final[Sequence[int]] = [
    getattr(termios, name) for name in ("VSUSP", "VDSUSP", "VQUIT") if hasattr(termios, name)
]
"""Keys that stop or kill a process; not each system has all of them."""


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
            try:
                data = os.read(self._fd, _MOST_BYTES)
            except OSError:  # the terminal was closed
                data = b""
            self._take(data)
            if not data:
                return


@contextmanager
def unbuffered(fd: int) -> Iterator[None]:
    r"""Each key comes at once and is not echoed; Ctrl-C stays a signal. Put back in any case.

    Ctrl-S, Ctrl-Z, Ctrl-Y and Ctrl-\ have no meaning meanwhile: they would stop or kill the
    harness, with faults open that only it heals in time.
    """
    before = termios.tcgetattr(fd)
    mode = termios.tcgetattr(fd)
    mode[_FLAGS] &= ~termios.IXON
    mode[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    controls = list(mode[_CONTROLS])
    controls[termios.VMIN], controls[termios.VTIME] = 1, 0
    no_key = bytes([os.fpathconf(fd, "PC_VDISABLE")])
    for key in _STOPPING:
        controls[key] = no_key
    mode[_CONTROLS] = controls
    try:
        termios.tcsetattr(fd, termios.TCSANOW, mode)
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(fd, termios.TCSANOW, before)


def is_at_hand(fd: int) -> bool:
    """Whether it is a terminal that this process may read: not one of a job in the background."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
