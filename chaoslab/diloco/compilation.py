"""The cache of compiled steps on disk, safe against processes that are killed at any moment.

    <directory>/<entry> ── copied at the start ──► <directory>/.private-<pid>/ ◄── JAX reads, writes
            ▲                                                │
            └──────── publish_compilations: new entries, renamed into place

JAX writes an entry in place and never writes one that exists. A process that is killed meanwhile
leaves a torn entry, which every later start fails to read and cannot replace. Here each process
writes into a folder of its own, and only whole entries are published.
"""

import os
import shutil
import warnings
from pathlib import Path

import jax

_PRIVATE = ".private-"


def enable_compilation_cache(directory: Path) -> None:
    """Keep compiled functions in `directory`, on this machine's file system.

    JAX's key leaves out the number of threads: use one directory for each thread setting.
    """
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(directory)
    private = directory / f"{_PRIVATE}{os.getpid()}"
    private.mkdir()
    for entry in _entries(directory):
        shutil.copyfile(entry, private / entry.name)
    jax.config.update("jax_compilation_cache_dir", str(private))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # otherwise the directory's path would be part of the key
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def publish_compilations() -> None:
    """Offer what this process has compiled to later ones; nothing without a cache of ours."""
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


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")


def _remove_leftovers(directory: Path) -> None:
    """Private folders of processes that are gone, and of an earlier one with this process's id."""
    for folder in directory.glob(f"{_PRIVATE}*"):
        pid = int(folder.name.removeprefix(_PRIVATE))
        if pid == os.getpid() or not _is_alive(pid):
            shutil.rmtree(folder, ignore_errors=True)  # a neighbour may be removing it as well


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
