"""What a new process of this package begins with."""

import os
from pathlib import Path

SPAWN_GUARD = Path(__file__).with_name("spawn_guard.py")
"""Program that a new process runs before it executes the node's program."""


def import_path() -> str:
    """PYTHONPATH for a new process that is to find this very package, wherever it was found."""
    ours = str(Path(__file__).resolve().parents[2])
    theirs = os.environ.get("PYTHONPATH")
    return f"{ours}{os.pathsep}{theirs}" if theirs else ours
