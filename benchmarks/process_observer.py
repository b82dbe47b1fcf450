"""Observer of a run: sees from outside when the learners' processes stop executing.

    journal ─► pids        /proc/<pid>/status of each ─► Hold(free until, held since)
                           every 2 ms, around the expected times every 0.2 ms

A process counts as held from the reading in which it is stopped or has ended, a signal that does
this is pending, or another of its threads has stopped: it executes no more of its own code, even if
a busy machine shows that later. The observer asks for real-time priority, so that its own waits do
not count; without the privilege its readings are coarser. It notes how late it wakes from each
sleep: as late as that the machine makes any process that does nothing but wait.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Self

from chaoslab.core.events import Event, MalformedEvent
from chaoslab.core.payloads import NodeStarted

_LOOK_EVERY_S = 0.002
_LOOK_CLOSELY_EVERY_S = 0.0002
_CLOSELY_S = 0.015
"""Seconds before and after an expected time in which it looks closely."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """One end of a sleep of the observer."""

    woke_s: float
    """In seconds since the epoch."""
    late_s: float
    """After the time that was asked for."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    file: int
    free_s: float | None = None
    is_held: bool = False


@dataclass(slots=True)
class ProcessObserver:
    """Reads the state of every learner's process; gets their pids from the journal."""

    expected_s: Sequence[float] = ()
    """Seconds after the first hold at which others are expected, in order."""
    holds: list[Hold] = field(default_factory=list)
    wakes: list[Wake] = field(default_factory=list)
    """Oldest first."""
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
        for_s = _LOOK_CLOSELY_EVERY_S if self._is_expecting() else _LOOK_EVERY_S
        until_s = time.monotonic() + for_s
        time.sleep(for_s)
        now_s = time.monotonic()
        self.wakes.append(Wake(woke_s=time.time(), late_s=now_s - until_s))
        if now_s - self._journal_s >= _READ_JOURNAL_EVERY_S:
            self._journal_s = now_s
            self._watch_new(journal)
        seems_free = [pid for pid in tuple(self._watched) if not self._read(pid)]
        for pid in seems_free:  # after the others: to look at all threads takes a while
            self._note(pid, is_held=self._is_one_held() and _has_stopped_thread(pid))

    def latest_wake_s(self, from_s: float, until_s: float) -> float:
        """How late it was at most where it should have woken between two times since the epoch."""
        first = bisect_left(self.wakes, from_s, key=lambda wake: wake.woke_s)
        overdue = takewhile(lambda wake: wake.woke_s - wake.late_s <= until_s, self.wakes[first:])
        return max((wake.late_s for wake in overdue), default=0.0)

    def _is_expecting(self) -> bool:
        if not self.holds:
            return False
        since_s = time.time() - self.holds[0].held_s
        index = bisect_left(self.expected_s, since_s - _CLOSELY_S)
        return index < len(self.expected_s) and self.expected_s[index] <= since_s + _CLOSELY_S

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
        said = started.payload
        if isinstance(said, NodeStarted) and said.role == "learner":
            pid = said.pid
            self._watched[pid] = _Watched(file=os.open(f"/proc/{pid}/status", os.O_RDONLY))

    def _read(self, pid: int) -> bool:
        """Whether its status shows that it is held."""
        watched = self._watched[pid]
        try:
            status = os.pread(watched.file, 4096, 0)
        except ProcessLookupError:
            status = b""
        if is_held := is_held_by(status):
            self._note(pid, is_held=True)
        if not status:
            os.close(watched.file)
            del self._watched[pid]
        return is_held

    def _note(self, pid: int, *, is_held: bool) -> None:
        watched, now_s = self._watched[pid], time.time()
        if not is_held:
            watched.free_s = now_s
        elif not watched.is_held and watched.free_s is not None:
            self.holds.append(Hold(pid=pid, free_s=watched.free_s, held_s=now_s))
        watched.is_held = is_held

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
