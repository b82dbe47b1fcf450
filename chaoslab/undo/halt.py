"""Halt of runs: ends them in order, also those of others, and heals what they leave.

    marks of processes ──┐
    undo logs in --out ──┴─► run directories ─► harness of each: which process
                                                   │
        SIGTERM, SIGCONT: it heals and ends ◄──────┤
        too late: SIGKILL, then `heal` ◄───────────┘─► Halted: what was undone, what remains

A run is found wherever it keeps its record: its janitor is told where, and its nodes carry it in
their environment. The process to end is named by the undo log alone, never by a name, and only a
process of this user that has this very log open is ended: not one that a copied record names.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.errors import FleetError
from chaoslab.core.process_identity import Identity, is_running, node_mark, send
from chaoslab.core.process_tree import processes
from chaoslab.undo.actions import leftovers
from chaoslab.undo.harness import harness_of, is_of_run
from chaoslab.undo.janitor import heal
from chaoslab.undo.log import (
    UNDO_LOG,
    is_owned,
    logged_runs,
    may_have_open_undos,
    open_undos,
)
from chaoslab.undo.verbs import Healed

_JANITOR = "chaoslab.undo.janitor"
_TWIN = "twin"
_PAUSE_S = 0.05
_TELL_S = 2.0
_KILL_S = 5.0
"""Time that the kernel may take to end a harness that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """Result of halting one run."""

    run: Path
    how: str
    """How it ended, as a clause: `ended in order`, `was killed`, `no harness ran it`."""
    actions: tuple[str, ...]
    """Things that were removed."""
    remaining: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Ending:
    """A run that is being ended."""

    run: Path
    harness: Identity | None
    was_there: tuple[str, ...]
    how: str = "no harness ran it"

    @property
    def is_over(self) -> bool:
        """Whether its harness has ended or closed the undo log."""
        return _harness(self.run) is None


def find_runs(root: Path) -> tuple[Path, ...]:
    """Every run of this user that has a harness or open entries: below `root` by its undo
    log, anywhere else on this machine by its living processes.
    """
    marked = (run for run in _marked() if (run / UNDO_LOG).is_file())
    return tuple(
        run
        for run in sorted({path.resolve() for path in (*logged_runs(root), *marked)})
        if is_owned(run)
        and (_is_mine(process.pid) if (process := _harness(run)) else may_have_open_undos(run))
    )


def halt(
    runs: Sequence[Path], *, within_s: float, tell: Callable[[str], None] = lambda _: None
) -> tuple[Halted, ...]:
    """End them all at once, as Ctrl-C does; kill and heal those that still run after `within_s`.

    `tell` gets a line about each run that is waited for. A run whose undo log cannot be read is
    ended, too; the unreadable log is among what remains.
    """
    endings = [_ask(run) for run in runs]
    began_s = told_s = time.monotonic()
    while late := [one for one in endings if not one.is_over]:
        now_s = time.monotonic()
        if now_s - began_s >= within_s:
            break
        if now_s - told_s >= _TELL_S:
            told_s = now_s
            tell(f"waiting for {', '.join(str(one.run) for one in late)} to heal and end")
        time.sleep(_PAUSE_S)
    for one in late:
        tell(f"{one.run} does not end: killing process {one.harness and one.harness.pid}")
        _kill(one)
    return tuple(map(_finish, endings))


# ---------------------------------------------------------------- ending one


def _ask(run: Path) -> _Ending:
    """Interrupt its harness as Ctrl-C does; a stopped one is continued, so that it can react."""
    harness = _harness(run)
    one = _Ending(run=run, harness=harness, was_there=_left(run))
    if harness is not None:
        one.how = f"process {harness.pid} ended in order"
        for number in (signal.SIGTERM, signal.SIGCONT):
            _send(one, number)
    return one


def _kill(one: _Ending) -> None:
    if one.harness is None:
        return
    one.how = f"process {one.harness.pid} did not end and was killed"
    _send(one, signal.SIGKILL)
    deadline_s = time.monotonic() + _KILL_S
    while not one.is_over and time.monotonic() < deadline_s:
        time.sleep(_PAUSE_S)


def _finish(one: _Ending) -> Halted:
    """Heal what is still open: nothing, where the harness did it."""
    try:
        healed = heal(one.run)
    except FleetError as error:
        healed = Healed(remaining=(str(error),))
    there = _left(one.run)
    gone = [f"{what}: gone" for what in one.was_there if what not in there]
    return Halted(
        run=one.run,
        how=one.how,
        actions=(*gone, *healed.actions),
        remaining=tuple(dict.fromkeys((*healed.remaining, *sorted(there)))),
    )


def _left(run: Path) -> tuple[str, ...]:
    """Things in open entries that still exist; nothing, if the undo log cannot be read."""
    try:
        entries = open_undos(run)
    except FleetError:
        return ()
    return tuple(dict.fromkeys(what for entry in entries for what in leftovers(entry)))


def _send(one: _Ending, number: int) -> None:
    """Send only to that very process, if it is this user's and still the harness of the run."""
    process = one.harness
    if (
        process is None
        or process.pid == os.getpid()
        or not (is_running(process.pid) and _is_mine(process.pid))
    ):
        return
    if is_of_run(process, one.run):
        send(process, number)


# ---------------------------------------------------------------- finding


def _marked() -> Iterator[Path]:
    """The run directories that living processes of this user speak of."""
    for process in processes():
        try:
            if process.uids().real != os.getuid():
                continue
            words, mark = process.cmdline(), node_mark(process.pid)
        except (psutil.Error, OSError):
            continue  # gone meanwhile
        if _JANITOR in words[:-1]:
            yield _run_of(Path(words[-1]))
        if mark is not None:
            yield _run_of(Path(mark).parent.parent)


def _run_of(directory: Path) -> Path:
    """A twin belongs to the run around it."""
    return directory.parent if directory.name == _TWIN else directory


def _harness(run: Path) -> Identity | None:
    """Harness of a run; None as well if the undo log cannot be read: `_finish` says why."""
    try:
        return harness_of(run)
    except FleetError:
        return None


def _is_mine(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).uids().real == os.getuid())
    except psutil.Error:
        return False
