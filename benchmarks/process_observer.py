"""Observer of a run: sees from outside when the learners' processes stop executing.

    journal ─► pids        /proc/<pid>/status of each, every 2 ms ─► Hold(free until, held since)

A process counts as held from the reading in which it is stopped or has ended, a signal that does
this is pending, or another of its threads has stopped: it executes no more of its own code, even if
a busy machine shows that later. The observer asks for real-time priority, so that its own waits do
not count; without the privilege its readings are coarser.
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
_TOGETHER_S = 0.1
"""Seconds after a hold for which the threads of other processes are examined too."""
_ENDS_OR_STOPS = 1 << (9 - 1) | 1 << (19 - 1)
"""SIGKILL and SIGSTOP in a mask of pending signals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A process stopped executing between two readings, in seconds since the epoch."""

    pid: int
    free_s: float
    """Time of the last reading in which it was free."""
    held_s: float


@dataclass(slots=True, kw_only=True)
class _Watched:
    file: int
    free_s: float | None = None
    is_held: bool = False


@dataclass(slots=True)
class ProcessObserver:
    """Reads the state of every learner's process; gets their pids from the journal."""

    holds: list[Hold] = field(default_factory=list)
    stalls_s: list[float] = field(default_factory=list)
    """Times for which a real-time thread got no core: the machine itself stalled."""
    has_realtime_priority: bool = False
    _watched: dict[int, _Watched] = field(default_factory=dict)
    _known_bytes: int = 0
    _journal_s: float = 0.0
    """Time of the last reading of the journal, on the monotonic clock."""

    def __enter__(self) -> Self:
        """Ask for real-time priority; children do not inherit it."""
        with suppress(OSError):
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(1))
            self.has_realtime_priority = True
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        for watched in self._watched.values():
            os.close(watched.file)

    def look(self, journal: Path) -> None:
        """Read the state of every process, after a short sleep."""
        began_s = time.monotonic()
        time.sleep(_LOOK_EVERY_S)
        now_s = time.monotonic()
        if now_s - began_s > _LOOK_EVERY_S + STALL_S:
            self.stalls_s.append(now_s - began_s)
        if now_s - self._journal_s >= _READ_JOURNAL_EVERY_S:
            self._journal_s = now_s
            self._watch_new(journal)
        for pid, watched in list(self._watched.items()):
            self._read(pid, watched)

    def _watch_new(self, journal: Path) -> None:
        """Add the processes started since the last call."""
        with journal.open("rb") as file:
            file.seek(self._known_bytes)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._known_bytes += len(whole)
        for line in whole.splitlines():
            if b'"node.started"' in line:
                with suppress(MalformedEvent, FileNotFoundError):
                    self._watch(Event.from_line(line.decode()))

    def _watch(self, started: Event) -> None:
        if started.payload.role == "learner":
            pid = started.payload.pid
            self._watched[pid] = _Watched(file=os.open(f"/proc/{pid}/status", os.O_RDONLY))

    def _read(self, pid: int, watched: _Watched) -> None:
        try:
            status = os.pread(watched.file, 4096, 0)
        except ProcessLookupError:
            status = b""
        is_held = is_held_by(status) or (self._is_one_held() and _has_stopped_thread(pid))
        now_s = time.time()
        if not is_held:
            watched.free_s = now_s
        elif not watched.is_held and watched.free_s is not None:
            self.holds.append(Hold(pid=pid, free_s=watched.free_s, held_s=now_s))
        watched.is_held = is_held
        if not status:
            os.close(watched.file)
            del self._watched[pid]

    def _is_one_held(self) -> bool:
        """Whether a process was held just now, so that others may be next."""
        return bool(self.holds) and time.time() - self.holds[-1].held_s < _TOGETHER_S


def is_held_by(status: bytes) -> bool:
    """Whether a process with this /proc/<pid>/status executes nothing more; b"" means gone."""
    fields = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    if not fields:
        return True
    pending = int(fields[b"SigPnd"], 16) | int(fields[b"ShdPnd"], 16)
    return fields[b"State"].strip()[:1] in b"TZX" or bool(pending & _ENDS_OR_STOPS)


def _has_stopped_thread(pid: int) -> bool:
    """Whether a thread has taken a SIGSTOP, which stops all others as soon as they run."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if stat.read_bytes().rpartition(b") ")[2][:1] == b"T":
                return True
    return False
