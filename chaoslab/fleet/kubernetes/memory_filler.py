"""Program that fills the memory limit of a pod's container, until the kernel kills the node there.

    python3 -I -S -c PROGRAM FOR_S     in the container, by exec
      limit of the cgroup ─ none: refuse ─► the node is the first to be killed ─► fork, exit 0
                                                                 └─► fill, until FOR_S or SIGTERM

The pages belong to a file in memory (memfd) and so to no process: the largest process that the
kernel finds is the node. A limit is never lowered: the kubelet refuses one below what is used, and
so does the kernel with the first version of cgroups. It imports nothing of chaoslab.
"""

import os
import signal
import sys
import time
from pathlib import Path

CONTROL = Path("/run/chaoslab")
"""Has the pid of the node; `manifests.CONTROL`."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Files of the limit, by both versions of cgroups."""
_UNLIMITED_BYTES = 1 << 60
"""Bytes above which the first version of cgroups shows no limit."""
_FIRST = "1000"
"""Place in the kernel's line: counts as large as the whole limit."""
_PIECE = bytes(1 << 20)
_LOOK_S = 0.1


def main(for_s: float) -> int:
    """Refuse, or begin to fill in a process of its own."""
    limit = limit_bytes()
    if limit is None:
        sys.stderr.write("the container has no memory limit: set fleet.memory\n")
        return 1
    place = Path(f"/proc/{(CONTROL / 'pid').read_text().strip()}/oom_score_adj")
    before = place.read_text()
    place.write_text(_FIRST)
    filler = os.fork()
    if filler:
        (CONTROL / "filler").write_text(str(filler))
        return 0
    detach()
    try:
        fill(limit, time.monotonic() + for_s)
    finally:
        place.write_text(before)
    return 0


def limit_bytes() -> int | None:
    """Memory that the container may use, by the kernel's word; None: as much as there is."""
    for file in LIMITS:
        if file.exists():
            said = file.read_text().strip()
            return int(said) if said != "max" and int(said) < _UNLIMITED_BYTES else None
    return None


def detach() -> None:
    """Outlive the command, which ends when its output is closed."""
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def fill(limit: int, until_s: float) -> None:
    """Hold pages, at most as many as the limit: then it was none."""
    pages, filled = os.memfd_create("filler"), 0
    while time.monotonic() < until_s:
        if filled < limit:
            filled += os.write(pages, _PIECE)
        else:
            time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
