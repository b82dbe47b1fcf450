"""Janitor: undoes what a dead harness left behind, and what a silent one does not get to.

    harness ── beats ──► pipe ──► janitor (own session) ── no beat for 5 s ─► what is overdue
       │                             └─ end of the pipe: the harness is gone ─► everything
       └── undo_log.jsonl ◄───────── how, from the run directory alone ──────┘

`python -m chaoslab.undo.janitor RUN_DIR` is the janitor; its standard input is the pipe. `heal`
does the same for any old run. Both may run twice, or at once, and never touch a process that got
the pid of one that ended. The twin in twin/ is included. A node that was killed is not started
again, unless others had started it: what is undone for a silent harness gives back what goes on.
"""

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.payloads import JanitorDied
from chaoslab.core.private_files import NotPrivate, remove
from chaoslab.core.spawning import import_path
from chaoslab.undo.actions import is_last, is_safe_during_run, undo
from chaoslab.undo.harness import harness_of, is_in_progress, unknown_harness
from chaoslab.undo.heartbeat import SILENT_S, UNDONE, Pulse
from chaoslab.undo.log import append, logged_runs, may_have_open_undos, undo_logs
from chaoslab.undo.verbs import Healed, UndoEntry

_LOG = "janitor.log"
_END_S = 120.0
"""Time in which the harness waits for its janitor to do what is left to do."""
RESTARTS = 3
"""Most restarts in one run: what kills a janitor more often will kill the next one, too."""
_LOOK_S = 0.5
_SLACK_S = 1.0
"""Lateness of a heal after which the janitor does it."""


def heal(run_directory: Path) -> Healed:
    """Carry out the open entries of a dead harness. A run that is going on is left alone and
    reported, and so is one that may be going on, such as another machine's.

    FleetError when the undo log cannot be read.
    """
    harness = harness_of(run_directory)
    if harness is not None and harness.pid != os.getpid():
        running = (
            f"{run_directory} is in use by process {harness.pid}: "
            "end it with Ctrl-C or `chaoslab halt`, and it heals by itself"
        )
        return Healed(remaining=(running,))
    if (why := unknown_harness(run_directory)) and may_have_open_undos(run_directory):
        unknown = (
            f"{run_directory}: {why}; if no process runs it any more, remove the lines with "
            '"harness" out of its undo_log.jsonl and heal it here'
        )
        return Healed(remaining=(unknown,))
    return perform(run_directory)


def perform(run_directory: Path) -> Healed:
    """Heal without asking whether the harness lives: the janitor knows.

    What was undone and cannot be written down, because the disk is full, is a warning: doing it
    again is safe.
    """
    actions: list[str] = []
    remaining: list[str] = []
    for log in undo_logs(run_directory):
        for entry in sorted(log.open, key=is_last):
            if remaining and is_last(entry):
                continue  # what remains needs it
            done = undo(entry)
            actions += done.actions
            remaining += done.remaining
            if not done.remaining:
                _close(log.path, entry, done)
    for path in half_written(run_directory):
        with suppress(NotPrivate):  # what lies behind a link is not the run's, and stays
            remove(run_directory, *path.relative_to(run_directory).parts)
    return Healed(actions=tuple(actions), remaining=tuple(remaining))


def find_runs(root: Path) -> tuple[Path, ...]:
    """Runs of this user under `root` that have open entries and no harness."""
    return tuple(
        run for run in logged_runs(root) if may_have_open_undos(run) and not is_in_progress(run)
    )


def _close(path: Path, entry: UndoEntry, done: Healed) -> None:
    try:
        append(path, {"close": entry.number, "by": "janitor", "did": list(done.actions)})
    except OSError as error:
        logging.getLogger(__name__).warning("%s cannot be written: %s", path, error)


def half_written(run_directory: Path) -> tuple[Path, ...]:
    """Files that its harness, or one of its nodes, was just about to put in place of others."""
    ours = ("", "evidence/", "twin/", "twin/evidence/")
    theirs = ("nodes/*/*/", "snapshots/", "twin/nodes/*/*/", "twin/snapshots/")
    patterns = [f"{folder}.*.new" for folder in ours] + [f"{one}.*.partial" for one in theirs]
    return tuple(path for pattern in patterns for path in run_directory.glob(pattern))


# ---------------------------------------------------------------- the harness's side


def start_janitor(run_directory: Path) -> "AbstractContextManager[Guard]":
    """A janitor for the time of a block. It ends with the block, or after us.

    It has its own session, none of our files and no terminal; what it cannot do it says in
    janitor.log, which exists only then.
    """
    return closing(Guard(run_directory))


class Guard:
    """The janitor of one run, and the next one should it die: at most `RESTARTS` in a run."""

    def __init__(self, run_directory: Path) -> None:
        """FleetError if none can be started."""
        self._run_directory, self._log = run_directory, run_directory / _LOG
        self._restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._pulse = Pulse(pipe=self._start(), run_directory=run_directory)
        self.beat = self._pulse.beat

    @property
    def pid(self) -> int | None:
        """Process id of the janitor; None when there is none any more."""
        return self._process.pid if self._process is not None else None

    def lapse(self) -> JanitorDied | None:
        """See `Heartbeat.lapse`."""
        dead = self._process
        code = None if dead is None else dead.poll()
        if dead is None or code is None:
            return None
        self._process = None
        os.close(self._pulse.pipe)
        self._pulse.pipe, reason = self._replace()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return JanitorDied(pid=dead.pid, how=how, successor=self.pid, reason=reason)

    def close(self) -> None:
        """The run is over: wait for the janitor to end, or do its work, should there be none."""
        os.close(self._pulse.pipe)
        if self._process is not None:
            _await_end(self._process, self._log)
            return
        for line in perform(self._run_directory).remaining:
            logging.getLogger(__name__).warning("%s", line)

    def _replace(self) -> tuple[int, str]:
        """Start a successor and beat to it; the error, if none can be started."""
        reason = f"{RESTARTS} replacements have been started already"
        if self._restarts < RESTARTS:
            self._restarts += 1
            try:
                return self._start(), ""
            except FleetError as error:
                reason = str(error)
        return os.open(os.devnull, os.O_WRONLY), reason

    def _start(self) -> int:
        """Our end of its pipe."""
        read_end, write_end = os.pipe()
        try:
            program = (sys.executable, "-m", "chaoslab.undo.janitor")
            with self._log.open("ab") as errors:
                self._process = subprocess.Popen(
                    (*program, str(self._run_directory.resolve())),
                    stdin=read_end,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={**os.environ, "PYTHONPATH": import_path()},
                    start_new_session=True,
                )
        except OSError as error:
            os.close(write_end)
            raise FleetError(f"the janitor cannot be started: {error}") from error
        finally:
            os.close(read_end)
        os.set_blocking(write_end, False)
        return write_end


def _await_end(process: "subprocess.Popen[bytes]", log: Path) -> None:
    try:
        code = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code:
        logging.getLogger(__name__).warning("the janitor ended with %d: see %s", code, log)
    elif not log.stat().st_size:
        log.unlink()


# ---------------------------------------------------------------- the janitor


@dataclass(slots=True, kw_only=True)
class Overdue:
    """Undoes entries whose time is over, in place of a harness that stalls."""

    run_directory: Path
    _done: set[tuple[Path, int]] = field(default_factory=set)

    def let_go(self) -> list[str]:
        """Undo every overdue entry whose verb allows it during a run; what was done, as sentences.

        Failures are tried again at the next call. FleetError or OSError if the undo log cannot be
        read or written.
        """
        did: list[str] = []
        now_s = time.monotonic()
        for log in undo_logs(self.run_directory):
            for entry in log.open:
                is_due = entry.until_s is not None and now_s >= entry.until_s + _SLACK_S
                if (
                    is_due
                    and is_safe_during_run(entry)
                    and (log.path, entry.number) not in self._done
                ):
                    did += self._undo(log.path, entry)
        return did

    def _undo(self, path: Path, entry: UndoEntry) -> tuple[str, ...]:
        done = undo(entry)
        if not done.remaining:
            self._done.add((path, entry.number))
        if done.actions:
            facts: dict[str, Json] = {
                "open": entry.number,
                "do": entry.do,
                "did": list(done.actions),
            }
            append(self.run_directory / UNDONE, facts)
        return done.actions


@dataclass(slots=True, kw_only=True)
class _Watchdog:
    """Undoes overdue entries while the harness is silent."""

    overdue: Overdue
    silent_s: float = 0.0

    def until_the_end(self, pipe: int) -> None:
        """Listen to the pipe until its other end is closed."""
        looked_s = time.monotonic()
        while True:
            is_heard = bool(select.select([pipe], [], [], _LOOK_S)[0])
            if is_heard and not os.read(pipe, 4096):
                return
            now_s = time.monotonic()
            passed_s = min(now_s - looked_s, 2 * _LOOK_S)  # our own stall does not count
            self.silent_s, looked_s = (0.0 if is_heard else self.silent_s + passed_s), now_s
            if self.silent_s >= SILENT_S:
                try:
                    self.overdue.let_go()
                except (FleetError, OSError) as error:  # tried again at the next look
                    _say(f"what is overdue cannot be undone: {error}")


def main(arguments: Sequence[str]) -> int:
    """Stand by until standard input ends, then undo what is open; 1 if something remains."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m chaoslab.undo.janitor RUN_DIR\n")
        return 2
    run_directory = Path(arguments[0])
    _Watchdog(overdue=Overdue(run_directory=run_directory)).until_the_end(0)
    healed = perform(run_directory)
    for line in healed.remaining:
        _say(line)
    return 1 if healed.remaining else 0


def _say(line: str) -> None:
    with suppress(OSError):  # the log may be on a full disk
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
