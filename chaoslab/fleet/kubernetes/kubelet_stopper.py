"""Program that stops the kubelet of its machine for a while, by SIGSTOP, and lets it go on.

    python3 -I -S -c PROGRAM FOR_S MACHINE     in a pod that sees the processes of the machine
      /proc ─► the process called kubelet ─► SIGSTOP ─► FOR_S ─► SIGCONT, also on SIGTERM

Containers run on meanwhile, this one included: nobody has to come back. Of several kubelets it
takes the one whose --hostname-override names MACHINE. It imports nothing of chaoslab.
"""

import os
import signal
import sys
import time
from pathlib import Path

PROC = Path("/proc")
_NAME = "kubelet"
_SEEN_S = 1.0
"""The cluster hears that this program runs, while it still can."""


def main(for_s: float, machine: str) -> int:
    """Refuse, or stop it and let it go on."""
    found = kubelets()
    if len(found) > 1:
        found = [pid for pid in found if is_of(pid, machine)]
    if len(found) != 1:
        sys.stderr.write(f"{len(found)} processes are the kubelet of {machine}, and not one\n")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(_SEEN_S)
    try:
        os.kill(found[0], signal.SIGSTOP)
        sys.stdout.write(f"stopped {found[0]} for {for_s:g} s\n")
        time.sleep(for_s)
    finally:
        os.kill(found[0], signal.SIGCONT)
    return 0


def kubelets() -> list[int]:
    """Numbers of the processes that are called so."""
    found = []
    for folder in PROC.iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().strip() == _NAME:
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def is_of(pid: int, machine: str) -> bool:
    """Whether its command line names this machine."""
    words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    return f"--hostname-override={machine}" in words


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
