"""Program that applies stress to a node, and ends the stress whatever happens to the harness.

    StressDriver ── 0.25, the strength ──► program ── SIGSTOP, SIGCONT, load, memory ──► the node
      end of input, SIGTERM, or its time is over ──► ends the stress, and itself

Run as a script by a bare interpreter (`python -I -S stress_program.py PROGRAM FOR_S [ARG …]`), so
it imports nothing of chaoslab. It does nothing before the first line on its standard input, which
the harness sends after it wrote the undo entry. It ends by itself after FOR_S seconds (`inf`:
never), so a harness that is stopped leaves no stress behind.

    duty PID START_TICKS   the node's group runs until it has used its share of the time, then stops
    burn CORE,CORE COUNT   computes without end on these cores, in this many processes
    occupy SIZE_BYTES      holds memory and has touched all of it; says what the machine has left
"""

import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

TICK_S = 0.02
"""Interval of a duty cycle. Shorter is inaccurate, longer makes a node stutter."""
_CREDIT_TICKS = 5
"""Ticks for which a node may save up the share that it did not use."""
_PAGE_BYTES = 4096
_PIECE_BYTES = 16 << 20
_PRINT_S = 1.0
"""Seconds between two reports of the available memory."""


def main(words: list[str]) -> int:
    """Run the program that `words` name until the time is over or the input ends."""
    program, for_s, *facts = words
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if program == "occupy":
        print_available()
    first = read_strength(None)
    if first is None:
        return 0
    until_s = time.monotonic() + float(for_s)
    PROGRAMS[program](first, until_s, *facts)
    return 0


def read_strength(limit_s: float | None) -> float | None:
    """Next strength on the input within `limit_s`; NaN if none comes, None at the end of input."""
    if not select.select([0], [], [], limit_s)[0]:
        return math.nan
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    return float(line)


# ---------------------------------------------------------------- the programs


def duty(share: float, until_s: float, pid: str, start_ticks: str) -> None:
    """Let the group of `pid` run while it has used less than `share` of a core, else stop it.

    Measured by CPU time, not by the time for which it may run: where others compete for the cores,
    half of the time would be more than half of its speed.
    """
    take_priority()
    group, is_stopped = int(pid), False
    began_s, before_s = time.monotonic(), used_s(group, start_ticks)
    try:
        while before_s is not None and time.monotonic() < until_s:
            asked = read_strength(TICK_S)
            if asked is None:
                return
            now_s, now_used_s = time.monotonic(), used_s(group, start_ticks)
            if now_used_s is None:
                return
            if not math.isnan(asked):  # a new share, from now on
                share, began_s, before_s = asked, now_s, now_used_s
            credit_s = share * (now_s - began_s) - (now_used_s - before_s)
            most_s = share * TICK_S * _CREDIT_TICKS
            if credit_s > most_s:
                began_s += (credit_s - most_s) / share
            if is_stopped != (credit_s < 0):
                is_stopped = not is_stopped
                os.killpg(group, signal.SIGSTOP if is_stopped else signal.SIGCONT)
    except ProcessLookupError:
        return
    finally:
        if is_stopped and used_s(group, start_ticks) is not None:
            os.killpg(group, signal.SIGCONT)


def burn(_: float, until_s: float, cores: str, count: str = "1") -> None:
    """Compute on these cores, in `count` processes; the further ones end with the container."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    for _more in range(1, int(count)):
        if os.fork() == 0:
            break
    while time.monotonic() < until_s and read_strength(0.0) is not None:
        sum(range(20_000))


def occupy(_: float, until_s: float, size: str) -> None:
    """Allocate memory in pieces and write to every page, so that it is resident."""
    pieces: list[bytearray] = []
    left = int(size)
    while left > 0:
        if read_strength(0.0) is None:
            return
        piece = bytearray(min(left, _PIECE_BYTES))
        piece[::_PAGE_BYTES] = b"\1" * len(range(0, len(piece), _PAGE_BYTES))
        pieces.append(piece)
        left -= len(piece)
    while (left_s := until_s - time.monotonic()) > 0:
        print_available()
        if read_strength(min(left_s, _PRINT_S)) is None:
            return


PROGRAMS: Mapping[str, Callable[..., None]] = {
    "duty": duty,
    "burn": burn,
    "occupy": occupy,
}


# ---------------------------------------------------------------- asking the kernel


def used_s(pid: int, start_ticks: str) -> float | None:
    """CPU seconds that a process and those that its main thread started have used by now.

    None when it is gone or the pid is another's.
    """
    fields = stat_fields(pid)
    if fields is None or fields[19] != start_ticks or fields[0] in "ZX":
        return None
    all_of_it = [fields, *filter(None, map(stat_fields, children(pid)))]
    return sum(int(one[11]) + int(one[12]) for one in all_of_it) / os.sysconf("SC_CLK_TCK")


def stat_fields(pid: int) -> list[str] | None:
    """/proc/PID/stat behind the name; None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def children(pid: int) -> list[int]:
    """Children of its main thread, as a learner of several hosts has; none if not listed."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            return [int(word) for word in listed.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def print_available() -> None:
    """Print the available memory in bytes on a line; nothing if the kernel does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as said:
            left = next(line for line in said if line.startswith("MemAvailable:"))
    except (FileNotFoundError, StopIteration):
        return
    os.write(1, b"%d\n" % (int(left.split()[1]) * 1024))


def take_priority() -> None:
    """Take a realtime priority if allowed: a program that waits for a core stops nodes late."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):  # another system, or no right to: nodes stop a little late
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
