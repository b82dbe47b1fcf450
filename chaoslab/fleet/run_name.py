"""Name of a run where several share a place: on a container engine, on hosts.

An undo entry that names another run than that of its own directory is refused by it.
"""

import hashlib
import socket
from pathlib import Path
from typing import Final

_DIGITS: Final = 10


def run_name(run_directory: Path) -> str:
    """A few hex digits that no other run shares, on this machine or another."""
    whose = f"{socket.gethostname()}:{run_directory.absolute()}"
    return hashlib.sha256(whose.encode()).hexdigest()[:_DIGITS]
