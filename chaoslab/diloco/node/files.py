"""Durable file operations: what must outlive a power cut is written by these and nothing else.

    File: append ─► kernel ── flush ─► disk          the bytes of one file
    appearing: .name.partial ── flush ── rename ─► name ── flush_folder ─► whole or not at all
    make_folder ── flush_folder(parent) ─► disk      the name of a folder

A power cut loses whatever was not flushed: bytes of a file (in part, in any order), and names that
were made, moved or removed in a folder. `flush` brings the bytes of a file to the disk and not its
name; `flush_folder` brings the names and not the bytes. Each call of `os` here is a point at which
a process can die, and tests let it die at every one of them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self


class File:
    """A file open for writing, without a buffer: OSError says at once what the disk refuses."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """`is_new`: make it, or empty the one that is there; else go on behind its last byte."""
        flags = os.O_CREAT | os.O_TRUNC if is_new else 0
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)
        self.size = 0 if is_new else os.fstat(self._handle).st_size
        """In bytes; where the next ones go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def append(self, content: bytes | memoryview) -> None:
        """Add all of it; after an OSError some of it may be there."""
        left = memoryview(content)
        while left:
            count = os.pwrite(self._handle, left, self.size)
            self.size += count
            left = left[count:]

    def cut(self, size: int) -> None:
        """Drop what is behind `size`."""
        os.ftruncate(self._handle, size)
        self.size = size

    def flush(self) -> None:
        """Wait until the disk has the bytes."""
        os.fsync(self._handle)

    def fileno(self) -> int:
        """For locks, and for whoever brings a writer of its own."""
        return self._handle

    def close(self) -> None:
        """Let go of it; nothing is flushed by that."""
        os.close(self._handle)


@contextmanager
def appearing(path: Path, *, durable: bool) -> Iterator[File]:
    """Write to the file this gives; it appears under its name at the end, or not at all.

    With `durable` the disk has bytes and name when the block is left.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with File(partial, is_new=True) as file:
            yield file
            if durable:
                file.flush()
        os.replace(partial, path)
    except BaseException:
        remove(partial)
        raise
    if durable:
        flush_folder(path.parent)


def make_folder(folder: Path, *, durable: bool) -> None:
    """Make a folder and those above it that are missing; OSError if that is refused.

    Its name is flushed even if it is there: an earlier life may have died before it came to that.
    """
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        make_folder(folder.parent, durable=durable)
        os.mkdir(folder)
    except FileExistsError:
        if not folder.is_dir():
            raise
    if durable:
        flush_folder(folder.parent)


def remove(path: Path) -> None:
    """Remove a file, if it is there. Not flushed: one that comes back harms nobody."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder as they are now."""
    _flush(folder)


def flush_all(folder: Path) -> None:
    """Wait until the disk has every file of a folder, and their names.

    What an earlier life wrote and could not flush any more can be read, and is still lost in a
    power cut: it is flushed before anybody goes by it.
    """
    for path in sorted(folder.iterdir()):
        if path.is_file():
            _flush(path)
    flush_folder(folder)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
