"""Lock of an attached training: one run at a time does something to it.

    adopt ─► take(what) ─► ~/.cache/chaoslab/attached/DIGEST.lock ─► given back on leaving
                └─ another run has it ─► FleetError: its process and its run directory

The lock (flock) ends with the harness, however that ends; its file stays. Runs of other users, and
of other machines on one engine, are not seen.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final

from chaoslab.core.cache import cache_folder
from chaoslab.core.errors import FleetError
from chaoslab.core.private_files import make_folder, open_file

_FOLDER: Final = "attached"
_WORDS_MOST_BYTES: Final = 8192


def take(what: str, run_directory: Path) -> Callable[[], None]:
    """Lock a training, named by a `what` that is the same in every run; what gives it back.

    FleetError if another run has it, or if the file cannot be made.
    """
    folder = cache_folder(_FOLDER)
    name = f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.lock"
    try:
        with suppress(FileExistsError):
            make_folder(folder)
        lock = open_file(folder, name, flags=os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock, _WORDS_MOST_BYTES, 0).decode(errors="replace")
            os.close(lock)
            raise _taken(owner) from None
    except OSError as error:
        raise FleetError(
            f"{folder / name} cannot be used ({error}), so other runs would not know "
            "that this training is attached to: set CHAOSLAB_CACHE to a folder of yours"
        ) from error
    with suppress(OSError):  # it is for people only
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {run_directory}\n".encode(), 0)
    return partial(os.close, lock)


def _taken(owner: str) -> FleetError:
    pid, _, run_directory = owner.strip().partition(" ")
    if not run_directory:  # it has not written it yet
        return FleetError("another run is attached to this training: wait until that is over")
    return FleetError(
        f"process {pid} is attached to this training, for the run {run_directory}: wait until that "
        f"is over, or end it with `chaoslab halt {quote(run_directory)}`"
    )
