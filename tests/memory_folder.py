"""Folder in memory, for tests that make thousands of small files: on a disk they take minutes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_MEMORY = Path("/dev/shm")


@contextmanager
def in_memory() -> Iterator[Path]:
    """A new folder, on disk where the system has no file system in memory."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as place:
        yield Path(place)
