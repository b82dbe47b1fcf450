"""Spawn guard: the program of a new process until it executes the node's program.

    fork ──► spawn guard ── die with the parent ── wait for the word "go" ── exec ──► node

Run as a script by a bare interpreter (`python -I -S spawn_guard.py GO_FD PARENT_PID PROGRAM …`), so
it imports nothing of chaoslab. Between fork and exec it ensures that

- the kernel kills the node when the harness dies (Linux; elsewhere only the janitor does);
- nothing runs that is not in the undo log: the harness sends one byte after it has recorded how to
  undo the start, and a harness that dies before that closes the pipe instead;
- the node has the niceness of the harness: one that is started again in mid-run would not, since a
  fork from real-time priority resets it (SCHED_RESET_ON_FORK);
- orphaned descendants become children of the node, so that its tree stays complete;
- the hooks of the node contract (SIGUSR1 hang, SIGUSR2 continue, SIGHUP notice) are ignored until
  the program handles them, so that a fault does not kill a program without handlers.

The node leads a process group, but not a session: Linux distributes cores among sessions first
(autogroups), so coarsely for processes with many threads that a learner beside three others got no
core for a second, where 50 ms are usual within one session.

Exit codes before the exec: 125 the harness is gone, 127 the program does not exist.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
HARNESS_GONE = 125
NO_PROGRAM = 127


def main(arguments: list[str]) -> int:
    """Execute the program in `arguments`; returns only if that fails."""
    go, parent, *program = arguments
    ask_the_kernel(PR_SET_PDEATHSIG, signal.SIGKILL)
    ask_the_kernel(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != int(parent) or os.read(int(go), 1) != b"g":
        return HARNESS_GONE
    os.close(int(go))
    with suppress(OSError):  # a higher priority than this user may have
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, int(parent)))
    for hook in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(hook, signal.SIG_IGN)
    for changed_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(changed_by_python, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - the purpose of this program
    except OSError as error:
        sys.stderr.write(f"{program[0]}: cannot be started: {error}\n")
    return NO_PROGRAM


def ask_the_kernel(option: int, value: int) -> None:
    """Call prctl(2); no effect where it does not exist."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
