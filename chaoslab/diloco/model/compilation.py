"""Compilation cache on disk, safe against processes that are killed at any moment.

    <directory>/<entry> ── linked at the start ──► <directory>/.private-<any>/ ◄── JAX reads, writes
            ▲                                                │
            └──────── publish_compilations: new entries, renamed into place

JAX writes an entry in place and never rewrites one. A process killed during that leaves a truncated
entry, which every later start fails to read and cannot replace. Here each process writes to a
private folder, and only complete entries are published. A lock, not a process id, tells whether the
owner of a private folder is alive: containers that share the directory use the same ids.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import jax

_PRIVATE = ".private-"
_LOCK = ".lock"
_TURN = ".turn"


def enable_compilation_cache(directory: Path) -> None:
    """Use `directory` (on a local file system) as JAX's compilation cache.

    JAX's key omits the number of threads: use one directory for each thread setting.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    private = _own_folder(directory)
    for entry in _entries(directory):
        _link(entry, private / entry.name)
    jax.config.update("jax_compilation_cache_dir", str(private))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # otherwise the directory's path would be part of the key
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def publish_compilations() -> None:
    """Publish new compilations of this process; no effect without `enable_compilation_cache`."""
    # jax adds its settings as attributes at run time
    private = Path(jax.config.jax_compilation_cache_dir or "")  # type: ignore[attr-defined]
    if not private.name.startswith(_PRIVATE):
        return
    try:
        for entry in _entries(private):
            if not (private.parent / entry.name).exists():
                partial = private / f".{entry.name}.partial"
                shutil.copyfile(entry, partial)
                partial.replace(private.parent / entry.name)
    except OSError as error:  # training needs no cache: a full disk must not end it
        warnings.warn(f"the next start will compile again: {error}", stacklevel=2)


def code_of(*files: str) -> str:
    """Digest of source files, which changes with what they compute; empty if one is unreadable."""
    seal = hashlib.blake2b(digest_size=16)
    for file in files:
        try:
            seal.update(Path(file).read_bytes())
        except OSError:
            return ""
    return seal.hexdigest()


def _link(entry: Path, to: Path) -> None:
    """Link a complete entry, which JAX never writes to again; copy it where that is refused."""
    try:
        to.hardlink_to(entry)
    except OSError:  # another user's file, or a file system without links
        shutil.copyfile(entry, to)


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")


def _own_folder(directory: Path) -> Path:
    """Create a private folder, locked until this process ends; remove those of dead processes."""
    turn = os.open(directory / _TURN, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)  # a folder being made is not locked yet
        for folder in directory.glob(f"{_PRIVATE}*"):
            if not _is_locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
        own = Path(tempfile.mkdtemp(prefix=_PRIVATE, dir=directory))
        fcntl.flock(os.open(own / _LOCK, os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_EX)
        return own
    finally:
        os.close(turn)


def _is_locked(folder: Path) -> bool:
    """Whether its owner is alive: the kernel releases the lock of a dead process."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
