"""Undoes what a dead harness left behind, from the run directory alone.

    harness ── open: how to undo, flushed BEFORE the action ──► obligations.jsonl
            ── close: undone and verified ──────────────────►        │
       │ pipe                                                        ▼
    janitor (own session) ── end of the pipe: the harness is gone ─► heal ──► closed by it

`python -m chaoslab.janitor RUN_DIR` is the janitor: it waits for the end of its standard input and
then does what is still owed. `heal` does the same for any old run. Both may run twice, or at once,
and never touch a process that got the pid of one that ended. The twin in control/ is included.
"""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chaoslab.errors import FleetError
from chaoslab.events import Json, encode
from chaoslab.fleet.tree import Identity, identify, is_running, is_same
from chaoslab.undo import Healed, Obligation, identity, undo

OBLIGATIONS = "obligations.jsonl"
_LOG = "janitor.log"
_FAREWELL_S = 30.0
"""How long the harness waits for its janitor to see that nothing is left to do."""


# ---------------------------------------------------------------- writing down


class Obligations:
    """The writer for one run; satisfies `fleet.base.ObligationLog`.

    While the process that made it lives, the run counts as running and `heal` leaves it alone;
    used as a context manager, until the block ends.
    """

    def __init__(self, run_directory: Path) -> None:
        """Continues a file that is there; FleetError when the disk refuses."""
        self._path = run_directory / OBLIGATIONS
        self._next = _read(self._path).next if self._path.exists() else 0
        holder = identify(os.getpid())
        if holder is not None:
            self._append({"held_by": {"pid": holder.pid, "start_time": holder.start_time}})

    def __enter__(self) -> "Obligations":
        return self

    def __exit__(self, *_: object) -> None:
        self._append({"held_by": None})

    def open(self, do: str, **facts: Json) -> int:
        """Write down how to undo what is about to be done; on disk when this returns."""
        number, self._next = self._next, self._next + 1
        self._append({"open": number, "do": do, **facts})
        return number

    def close(self, number: int) -> None:
        """It is undone, and that was verified."""
        self._append({"close": number})

    def _append(self, facts: Mapping[str, Json]) -> None:
        _append(self._path, facts)


def _append(path: Path, facts: Mapping[str, Json]) -> None:
    try:
        with path.open("ab") as file:
            _cut_torn_line(path, file)
            file.write(encode(facts).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FleetError(
            f"{path} cannot be written ({error}), and what cannot be undone is not done"
        ) from error


def _cut_torn_line(path: Path, file: IO[bytes]) -> None:
    """A writer that died within a line did not begin the action: nobody owes for it."""
    written = path.read_bytes()
    if written and not written.endswith(b"\n"):
        file.truncate(written.rfind(b"\n") + 1)


# ---------------------------------------------------------------- undoing


def heal(run_directory: Path) -> Healed:
    """Do what a dead harness still owes. A run that is going on is left alone and reported.

    FleetError when the file of obligations cannot be read or written.
    """
    holder = _holder(run_directory)
    if holder is not None and holder.pid != os.getpid():
        running = (
            f"{run_directory} is still being run by process {holder.pid}: "
            f"end it with Ctrl-C or `kill {holder.pid}`, and it heals by itself"
        )
        return Healed(remaining=(running,))
    return perform(run_directory)


def perform(run_directory: Path) -> Healed:
    """As `heal`, without asking whether the harness lives: the janitor knows."""
    actions: list[str] = []
    remaining: list[str] = []
    for path in _files(run_directory):
        for owed in _read(path).owed:
            done = undo(owed)
            actions += done.actions
            remaining += done.remaining
            if not done.remaining:
                _append(path, {"close": owed.number, "by": "janitor", "did": list(done.actions)})
    return Healed(actions=tuple(actions), remaining=tuple(remaining))


def open_obligations(run_directory: Path) -> tuple[Obligation, ...]:
    """What is still owed for a run and its twin, oldest first."""
    return tuple(owed for path in _files(run_directory) for owed in _read(path).owed)


def find_runs(root: Path) -> tuple[Path, ...]:
    """Runs under `root` that owe something and that nobody runs any more."""
    runs = {path.parent for path in root.glob(f"*/*/{OBLIGATIONS}")}
    runs |= {path.parent.parent for path in root.glob(f"*/*/control/{OBLIGATIONS}")}
    return tuple(
        run
        for run in sorted(runs)
        if not (run.is_symlink() or run.parent.is_symlink())
        and open_obligations(run)
        and _holder(run) is None
    )


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    owed: tuple[Obligation, ...]
    holder: Identity | None
    next: int


def _files(run_directory: Path) -> list[Path]:
    places = (run_directory, run_directory / "control")
    return [path for place in places if (path := place / OBLIGATIONS).exists()]


def _read(path: Path) -> _Book:
    owed: dict[int, Obligation] = {}
    holder: Identity | None = None
    following = 0
    for facts in _lines(path):
        if "held_by" in facts:
            held_by = facts["held_by"]
            holder = identity(held_by) if isinstance(held_by, Mapping) else None
        elif "open" in facts:
            number = _number(facts["open"])
            following = max(following, number + 1)
            owed[number] = Obligation(number=number, do=str(facts.get("do")), facts=facts)
        elif "close" in facts:
            owed.pop(_number(facts["close"]), None)
    return _Book(owed=tuple(owed.values()), holder=holder, next=following)


def _lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """The entries; a torn last line is skipped: its action was not begun."""
    try:
        *whole, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(whole, start=1):
        try:
            yield _entry(line)
        except (ValueError, RecursionError, FleetError) as error:
            raise FleetError(
                f"{path}:{number} is no obligation ({error}): {line[:200]!r}; undo by hand what it "
                "may have meant, take the line out, and call `chaoslab heal` for the others"
            ) from error


def _entry(line: bytes) -> Mapping[str, Json]:
    """One line of the file; ValueError or FleetError if it cannot be one."""
    facts = json.loads(line)
    if not isinstance(facts, dict):
        raise ValueError("not a JSON object")
    for key in {"open", "close"} & set(facts):
        _number(facts[key])
    if isinstance(facts.get("held_by"), dict):
        identity(facts["held_by"])
    return facts


def _number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FleetError(f"{value!r} is not the number of an obligation")
    return value


def _holder(run_directory: Path) -> Identity | None:
    """The harness that runs it or its twin now."""
    holders = [_read(path).holder for path in _files(run_directory)]
    living_ones = [one for one in holders if one and is_same(one) and is_running(one.pid)]
    return living_ones[0] if living_ones else None


# ---------------------------------------------------------------- the janitor


@contextmanager
def start_janitor(run_directory: Path) -> Iterator[int]:
    """A janitor for the time of the block; yields its pid. It ends with the block, or after us.

    It has its own session, none of our files and no terminal; what it cannot do it says in
    janitor.log, which exists only then.
    """
    read_end, write_end = os.pipe()
    log = run_directory / _LOG
    try:
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "chaoslab.janitor", str(run_directory.resolve())],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": _import_path()},
                start_new_session=True,
            )
    except OSError as error:
        os.close(write_end)
        raise FleetError(f"the janitor cannot be started: {error}") from error
    finally:
        os.close(read_end)
    try:
        yield process.pid
    finally:
        os.close(write_end)
        _see_off(process, log)


def _see_off(process: "subprocess.Popen[bytes]", log: Path) -> None:
    try:
        code = process.wait(_FAREWELL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    if code:
        logging.getLogger(__name__).warning("the janitor ended with %d: see %s", code, log)
    elif not log.stat().st_size:
        log.unlink()


def _import_path() -> str:
    """So that the janitor finds this very package, wherever it was imported from."""
    ours = str(Path(__file__).resolve().parent.parent)
    theirs = os.environ.get("PYTHONPATH")
    return f"{ours}{os.pathsep}{theirs}" if theirs else ours


def main(arguments: Sequence[str]) -> int:
    """Wait until standard input ends, then do what is owed; 1 if something remains."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m chaoslab.janitor RUN_DIR\n")
        return 2
    while os.read(0, 4096):
        pass
    healed = perform(Path(arguments[0]))
    sys.stderr.writelines(f"{line}\n" for line in healed.remaining)
    return 1 if healed.remaining else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
