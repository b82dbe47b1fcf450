"""End of a node's process by a signal, also where none can end it: as the first of a container."""

import os
import signal
from typing import NoReturn

_SIGNALS = 128
"""Exit codes above it tell a signal, as shells and container engines have it."""


def end_by(number: int) -> NoReturn:
    """End this process by a signal that it has no handler for. Callable on any thread."""
    signal.raise_signal(number)
    os._exit(_SIGNALS + number)  # the kernel keeps a container's first process from its own signals
