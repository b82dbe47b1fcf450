"""Reading of regular files, which come to an end; a pipe or a device in their place is refused."""

import errno
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """What a file holds; OSError also for a pipe or a device, which may keep a reader waiting."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.read_bytes()
