"""Reading of files of bounded length: of a record, which are regular, and of what users write."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

WRITTEN_MOST_BYTES: Final = 4 * 2**20
"""Largest file of settings. A plan with two labels for each of 10,000 learners has 0.65 MB; reading
YAML takes about 3 s for each MB.
"""


def read_regular(path: Path) -> bytes:
    """Content of a file; OSError also for a pipe or a device, which may keep a reader waiting."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path.read_bytes()


def read_written(path: Path) -> bytes:
    """Content of a user's file: a plan, hosts, costs, a trace, a script. It may be a pipe.

    OSError, which names size and limit, before more is read than `WRITTEN_MOST_BYTES`.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > WRITTEN_MOST_BYTES else file.read(WRITTEN_MOST_BYTES + 1)
    if (size := max(size, len(content))) > WRITTEN_MOST_BYTES:
        told = f"has {size / 1e6:.1f} MB, must have at most {WRITTEN_MOST_BYTES / 1e6:.1f} MB: "
        why = "keep hosts, costs and traces in files of their own, and data outside of them"
        raise OSError(errno.EFBIG, told + why, str(path))
    return content
