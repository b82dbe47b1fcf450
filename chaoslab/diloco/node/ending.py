"""End of a node's process: by a signal, also as the first of a container, or with another one."""

import ctypes
import os
import signal
from typing import NoReturn

_SIGNALS = 128
"""Exit codes above it tell a signal, as shells and container engines have it."""
_PR_SET_PDEATHSIG = 1
_PARENT_GONE = 125


def end_by(number: int) -> NoReturn:
    """End this process by a signal that it has no handler for. Callable on any thread."""
    signal.raise_signal(number)
    os._exit(_SIGNALS + number)  # the kernel keeps a container's first process from its own signals


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, whose process ID this is."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_PARENT_GONE)
