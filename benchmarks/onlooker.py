"""An onlooker of a run: sees from outside when the learners' processes stop executing.

    journal ─► pids        /proc/<pid>/status of each, every 2 ms ─► Hold(free until, held since)

A process counts as held from the reading in which it is stopped or ended, or a signal that does so
waits for it, or another of its threads has stopped already: it executes nothing of its own any
more, even if a busy machine lets it show that later. The onlooker asks the kernel to be first in
line, so that it tells the wait of others from its own; where it may not, its readings are coarser.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from chaoslab.core.events import Event, MalformedEvent

STALL_S = 0.01
_LOOK_EVERY_S = 0.002
_READ_JOURNAL_EVERY_S = 0.05
_COMPANY_S = 0.1
"""So long after one process was held, the threads of the others are looked at, too."""
_ENDS_OR_STOPS = 1 << (9 - 1) | 1 << (19 - 1)
"""SIGKILL, SIGSTOP in a mask of pending signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A process stopped executing between two readings, in seconds since the epoch."""

    pid: int
    free_s: float
    """The last reading in which it was free."""
    held_s: float


@dataclass(slots=True, kw_only=True)
class _Watched:
    file: int
    free_s: float | None = None
    is_held: bool = False


@dataclass(slots=True)
class Onlooker:
    """Reads the state of every learner's process; learns their ids from the journal."""

    holds: list[Hold] = field(default_factory=list)
    stalls_s: list[float] = field(default_factory=list)
    """Times for which even the first in line got no core: the machine itself stood still."""
    is_first_in_line: bool = False
    _watched: dict[int, _Watched] = field(default_factory=dict)
    _known_bytes: int = 0
    _journal_s: float = 0.0
    """When the journal was last read, on the monotonic clock."""

    def __enter__(self) -> Self:
        """Ask the kernel to be first in line; children are not."""
        with suppress(OSError):
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(1))
            self.is_first_in_line = True
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        for watched in self._watched.values():
            os.close(watched.file)

    def look(self, journal: Path) -> None:
        """One reading of everybody; sleeps a little before."""
        began_s = time.monotonic()
        time.sleep(_LOOK_EVERY_S)
        now_s = time.monotonic()
        if now_s - began_s > _LOOK_EVERY_S + STALL_S:
            self.stalls_s.append(now_s - began_s)
        if now_s - self._journal_s >= _READ_JOURNAL_EVERY_S:
            self._journal_s = now_s
            self._meet(journal)
        for pid, watched in list(self._watched.items()):
            self._read(pid, watched)

    def _meet(self, journal: Path) -> None:
        """Take in the processes that were started since."""
        with journal.open("rb") as file:
            file.seek(self._known_bytes)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._known_bytes += len(whole)
        for line in whole.splitlines():
            if b'"node.started"' in line:
                with suppress(MalformedEvent, FileNotFoundError):
                    self._run_loop(Event.from_line(line.decode()))

    def _run_loop(self, started: Event) -> None:
        if started.text("role") == "learner":
            pid = started.integer("pid")
            self._watched[pid] = _Watched(file=os.open(f"/proc/{pid}/status", os.O_RDONLY))

    def _read(self, pid: int, watched: _Watched) -> None:
        try:
            status = os.pread(watched.file, 4096, 0)
        except ProcessLookupError:
            status = b""
        is_held = is_held_by(status) or (self._has_company() and _has_stopped_thread(pid))
        now_s = time.time()
        if not is_held:
            watched.free_s = now_s
        elif not watched.is_held and watched.free_s is not None:
            self.holds.append(Hold(pid=pid, free_s=watched.free_s, held_s=now_s))
        watched.is_held = is_held
        if not status:
            os.close(watched.file)
            del self._watched[pid]

    def _has_company(self) -> bool:
        """Whether somebody was held just now, so that others may be on their way to it."""
        return bool(self.holds) and time.time() - self.holds[-1].held_s < _COMPANY_S


def is_held_by(status: bytes) -> bool:
    """Whether a process with this /proc/<pid>/status executes nothing any more; b"" is gone."""
    fields = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    if not fields:
        return True
    pending = int(fields[b"SigPnd"], 16) | int(fields[b"ShdPnd"], 16)
    return fields[b"State"].strip()[:1] in b"TZX" or bool(pending & _ENDS_OR_STOPS)


def _has_stopped_thread(pid: int) -> bool:
    """A thread that took a SIGSTOP has stopped all others, whether they had a turn since or not."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if stat.read_bytes().rpartition(b") ")[2][:1] == b"T":
                return True
    return False
