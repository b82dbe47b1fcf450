"""Durable file operations: all writes that must survive a power cut.

    File: append ─► kernel ── flush ─► disk          the bytes of one file
    atomic_write: .name.partial ── flush ── rename ─► name ── flush_folder ─► complete or absent
    make_folder ── flush_folder(parent) ─► disk      the name of a folder

A power cut loses whatever was not flushed: bytes of a file (in part, in any order), and names
created, moved or removed in a folder. `flush` writes the bytes of a file to the disk, but not its
name; `flush_folder` writes names, but not bytes. Each call of `os` here is a point at which a
process can die; tests kill it at every one of them.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


class File:
    """A file open for writing, unbuffered, so that OSError is raised by the call that failed."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        """`is_new`: create or empty the file; otherwise append behind its last byte."""
        flags = os.O_CREAT | os.O_TRUNC if is_new else 0
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o666)
        self.size = 0 if is_new else os.fstat(self._handle).st_size
        """Length of the file in bytes, where `append` writes."""

    def append(self, content: bytes | memoryview) -> None:
        """Append all of `content`; after an OSError part of it may be written."""
        left = memoryview(content)
        while left:
            count = os.pwrite(self._handle, left, self.size)
            self.size += count
            left = left[count:]

    def cut(self, size: int) -> None:
        """Truncate to `size` bytes."""
        os.ftruncate(self._handle, size)
        self.size = size

    def flush(self) -> None:
        """Block until the bytes are on disk."""
        os.fsync(self._handle)

    def fileno(self) -> int:
        """File descriptor, for locks and other writers."""
        return self._handle

    def close(self) -> None:
        """Close the file; its bytes are not flushed."""
        os.close(self._handle)


@contextmanager
def atomic_write(path: Path, *, durable: bool) -> Iterator[File]:
    """Context manager: write to the file it gives; at the end it replaces `path`, or on error
    nothing.

    With `durable`, bytes and name are on disk on exit.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with closing(File(partial, is_new=True)) as file:
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
    """Create a folder and its missing parents; OSError if that is refused.

    Its name is flushed even if it exists: the process that created it may have died before that.
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
    """Remove a file if it exists. Not flushed: a file that reappears does no harm."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def flush_folder(folder: Path) -> None:
    """Block until the names in a folder are on disk."""
    _flush(folder)


def flush_all(folder: Path) -> None:
    """Block until every file of a folder is on disk, and their names.

    Files written by an earlier process may be readable but not on disk, and be lost in a power cut:
    call this before relying on them.
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


def next_incarnation(directory: Path, asked: int | None) -> int:
    """Incarnation of a node's process: a number that grows with each start, kept in its folder.

    Incarnation of this process: the one asked for, else one more than the last one here.
    """
    file = directory / "incarnation"
    known = int(file.read_text()) if file.exists() else 0
    incarnation = known + 1 if asked is None else asked
    make_folder(directory, durable=True)
    with atomic_write(file, durable=True) as written:
        written.append(str(incarnation).encode())
    return incarnation
