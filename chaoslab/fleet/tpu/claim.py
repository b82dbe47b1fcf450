"""Claim of a fleet: one process of a machine at a time creates, replaces or deletes its slices.

Two runs on the same slices would each replace what the other has deleted. The lock is the kernel's,
on a file below the caller's home, and ends with the process however that ends. Between machines
nothing keeps two of them apart.
"""

import fcntl
import os
from pathlib import Path

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.tpu.inventory import Cloud

_claimed: dict[Path, int] = {}
"""Open files of the claims of this process: closing one would end its claim."""


def claim(cloud: Cloud) -> None:
    """Have the slices of a fleet until this process ends. AbilityError if another process has them.

    Nothing if this process has them already.
    """
    path = _lock_of(cloud)
    if path in _claimed:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(lock, 32).decode(errors="replace").strip()
        os.close(lock)
        raise AbilityError(
            f"process {owner} works with the slices of {cloud.name}: wait for its end, or end it "
            f"(a run: `chaoslab halt`) [{error.strerror}]"
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    _claimed[path] = lock


def _lock_of(cloud: Cloud) -> Path:
    """Path of a lock. Names were checked to have no slash; an emulator has slices of its own."""
    words = filter(None, (cloud.project, cloud.name, cloud.endpoint))
    return Path.home() / ".chaoslab" / "fleets" / f"{'.'.join(words)}.lock"
