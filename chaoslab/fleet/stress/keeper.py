"""What keeps a burden on a node: a small process that lets go of it, whatever becomes of the rest.

    StressDriver ── 0.25, the strength ──► keeper ── SIGSTOP, SIGCONT, load, memory ──► the node
      end of input, SIGTERM, or its time is over ──► lets go, and ends

Run as a script by a bare interpreter (`python -I -S keeper.py PROGRAM FOR_S [ARG …]`), so it
imports nothing of chaoslab. It does nothing before the first line on its standard input, which the
harness sends once it has written down how to end it. FOR_S is when it ends by itself, `inf` for
never: a harness that is stopped leaves no burden behind.

    duty PID START_TICKS   the node's group runs until it has used its share of the time, then stops
    burn CORE,CORE COUNT   computes without end on these cores, in so many processes
    hold SIZE_BYTES        holds memory and has touched all of it; says what the machine has left
"""

import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

TICK_S = 0.02
"""How often a duty cycle looks. Shorter is inaccurate, longer makes a node stutter."""
_CREDIT_TICKS = 5
"""What a node did not use of its share is kept for so long and no longer."""
_PAGE_BYTES = 4096
_LUMP_BYTES = 16 << 20
_SAY_S = 1.0
"""How often it is said what the machine has left."""


def main(words: list[str]) -> int:
    """Keep what `words` say until the time is over or the input ends."""
    program, for_s, *facts = words
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if program == "hold":
        say_what_is_left()
    first = heard(None)
    if first is None:
        return 0
    until_s = time.monotonic() + float(for_s)
    PROGRAMS[program](first, until_s, *facts)
    return 0


def heard(limit_s: float | None) -> float | None:
    """The next strength that is asked for within the time, NaN if none is; None at the end."""
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

    What counts is the CPU time that it got, not the time for which it was let go: beside others
    that want the cores, half of the time would be more than half of its speed.
    """
    be_first_in_line()
    group, is_stopped = int(pid), False
    began_s, before_s = time.monotonic(), used_s(group, start_ticks)
    try:
        while before_s is not None and time.monotonic() < until_s:
            asked = heard(TICK_S)
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
    """Compute on these cores. Those who are more than one end with the first, in its container."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    for _more in range(1, int(count)):
        if os.fork() == 0:
            break
    while time.monotonic() < until_s and heard(0.0) is not None:
        sum(range(20_000))


def hold(_: float, until_s: float, size: str) -> None:
    """Take memory lump by lump and write to every page of it, so that it is really taken."""
    lumps: list[bytearray] = []
    left = int(size)
    while left > 0:
        if heard(0.0) is None:
            return
        lump = bytearray(min(left, _LUMP_BYTES))
        lump[::_PAGE_BYTES] = b"\1" * len(range(0, len(lump), _PAGE_BYTES))
        lumps.append(lump)
        left -= len(lump)
    while (left_s := until_s - time.monotonic()) > 0:
        say_what_is_left()
        if heard(min(left_s, _SAY_S)) is None:
            return


PROGRAMS: Mapping[str, Callable[..., None]] = {"duty": duty, "burn": burn, "hold": hold}


# ---------------------------------------------------------------- asking the kernel


def used_s(pid: int, start_ticks: str) -> float | None:
    """CPU seconds that a process has used; None when it is gone or the pid is another's."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[19] != start_ticks or fields[0] in "ZX":
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def say_what_is_left() -> None:
    """Bytes of memory that are available, on a line by itself; nothing where no kernel says it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as said:
            left = next(line for line in said if line.startswith("MemAvailable:"))
    except (FileNotFoundError, StopIteration):
        return
    os.write(1, b"%d\n" % (int(left.split()[1]) * 1024))


def be_first_in_line() -> None:
    """Where the kernel lets us: what waits for a core cannot stop anybody in time."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):  # another system, or no right to: a little later, then
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
