"""Lock of the chip of a learner: one process at a time has it, as libtpu's own lock file sees to.

    start ─► take DIRECTORY/chip.lock ─┬─► held until the process ends, however it ends
                                       └─► ChipInUse: somebody else has it; exit code 69

Two processes of one learner would also write to one folder of checkpoints. On a TPU, libtpu locks
the devices of the host in addition.
"""

import fcntl
import os
from pathlib import Path

LOCK = "chip.lock"
EXIT_CODE = 69
"""Of a learner whose chip is in use: EX_UNAVAILABLE of sysexits."""


class ChipInUse(Exception):
    """Another process has the chip."""


def take(directory: Path, host: int = 0) -> int:
    """Take the chips of a host of the learner whose folder this is; the open file that keeps them.

    The file names the process that has it, for people. ChipInUse if that is another one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    name = f"chip-{host}.lock" if host else LOCK
    lock = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise ChipInUse(f"the chip is in use by process {holder}") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
