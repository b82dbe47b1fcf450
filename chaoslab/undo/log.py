"""Undo log of a run: how to undo each thing that it does, written down before it is done.

    harness ── open: how to undo, written BEFORE the action ──► undo_log.jsonl ──► open entries
            ── close: undone and verified ──────────────────►
            ── harness: this process runs it now ───────────►

What was written outlives the harness. Only an entry whose action outlives the machine's next start
as well waits for the disk, which can take a second on a busy one: a fault would come late.

One process writes while the harness lives, any of its threads; afterwards the one that heals. A
file that others could have written is refused (`private_files`). Nothing here undoes anything:
`actions` does, and `janitor` decides when.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TypeAlias

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, decode, encode
from chaoslab.core.private_files import NotOwned, open_file, read
from chaoslab.core.process_identity import boot_id, identify, names_process
from chaoslab.core.regular_files import read_regular
from chaoslab.undo.actions import ends_with_boot, is_safe_during_run, leftovers, looks
from chaoslab.undo.heartbeat import StillThere
from chaoslab.undo.verbs import UndoEntry

UNDO_LOG = "undo_log.jsonl"
PLACES = ((UNDO_LOG,), ("twin", UNDO_LOG))
"""Paths of the undo logs of a run and of its twin in the run directory."""
_OWN = frozenset({"open", "do"})
"""Keys of an entry beside the facts of its verb."""
_Content: TypeAlias = "Callable[..., bytes | None]"
"""Reads a file below a run directory, given its path in parts; None if it does not exist."""


class UndoLogFile:
    """The writer for one run; satisfies `base.UndoLog`.

    While the process that made it lives, the run counts as running and `heal` leaves it alone;
    used as a context manager, until the block ends. The file stays open meanwhile, by which others
    know that process (`harness.is_of_run`).
    """

    def __init__(self, run_directory: Path) -> None:
        """Continues a file that is there; FleetError when the disk refuses."""
        self._path = run_directory / UNDO_LOG
        log = _read(run_directory, (UNDO_LOG,))
        self._numbers = count(log.next if log else 0)
        self._open: set[int] = set()
        self._block, self._writing = _Block(), threading.Lock()
        harness = identify(os.getpid())
        if harness is not None:
            self._append({"harness": {**harness.facts, "host": socket.gethostname()}})
        try:
            self._file = open_file(run_directory, UNDO_LOG, flags=os.O_RDONLY | os.O_CREAT)
        except OSError as error:
            raise FleetError(f"{self._path} cannot be kept open: {error}") from error

    def __enter__(self) -> "UndoLogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._append_if_possible({"harness": None})
        os.close(self._file)

    def open(self, do: str, **facts: Json) -> int:
        """Write down how to undo what is about to be done, before this returns."""
        number, block = next(self._numbers), self._block
        until: dict[str, Json] = {}
        if block.until_s is not None:
            until = {"until_s": block.until_s, "boot_id": boot_id()}
        entry: dict[str, Json] = {"open": number, "do": do, **until, **facts}
        self._append(entry, durable=not ends_with_boot(do))
        self._open.add(number)
        if block.opened is not None:
            block.opened.append(
                UndoEntry(number=number, do=do, facts=entry, directory=self._path.parent)
            )
        return number

    def close(self, number: int) -> None:
        """It is undone, and that was verified.

        A full disk does not keep the rest from being undone: the entry stays open, and doing an
        undo twice is safe.
        """
        self._open.discard(number)
        self._append_if_possible({"close": number})

    @property
    def due_in_s(self) -> float | None:
        """Time until entries that are opened now are due; None: with the end of the run."""
        until_s = self._block.until_s
        return None if until_s is None else until_s - time.monotonic()

    @contextmanager
    def due_within(self, for_s: float | None) -> Iterator[StillThere]:
        """Entries opened by this thread in the block are due after `for_s`; None: at the end of the
        run.

        Yields a function that lists, at any later time, what of these entries is still there.
        """
        block, opened = self._block, list[UndoEntry]()
        block.until_s = None if for_s is None else time.monotonic() + for_s
        block.opened = opened
        try:
            yield partial(self._still_there, opened)
        finally:
            block.until_s = block.opened = None

    def _still_there(self, opened: list[UndoEntry]) -> tuple[tuple[str, str], ...]:
        """What is there although its entry was closed is opened again. Where `looks` is false, the
        log alone tells.
        """
        found: list[tuple[str, str]] = []
        for index, entry in enumerate(opened):
            if not is_safe_during_run(entry):
                continue
            is_open, node = entry.number in self._open, str(entry.facts.get("node") or "")
            if not looks(entry):
                text = f"{entry.do} is not undone for {node or 'a link'}"
                found += [(node, text)] if is_open else []
            elif there := leftovers(entry):
                found += [(node, text) for text in there]
                if not is_open:
                    facts = {key: value for key, value in entry.facts.items() if key not in _OWN}
                    opened[index] = replace(entry, number=self.open(entry.do, **facts))
        return tuple(found)

    def _append(self, facts: Mapping[str, Json], *, durable: bool = False) -> None:
        """Write one more line; `durable`: it is on disk when this returns."""
        try:
            with self._writing:
                append(self._path, facts)
            if durable:
                os.fsync(self._file)
        except OSError as error:
            raise FleetError(
                f"{self._path} cannot be written ({error}), and an action that cannot be undone "
                "is not carried out"
            ) from error

    def _append_if_possible(self, facts: Mapping[str, Json]) -> None:
        try:
            with self._writing:
                append(self._path, facts)
        except OSError as error:
            logging.getLogger(__name__).warning("%s cannot be written: %s", self._path, error)


class _Block(threading.local):
    """The block of `due_within` that a thread is in."""

    until_s: float | None = None
    """When entries opened in it are due; None: with the end of the run."""
    opened: list[UndoEntry] | None = None
    """Entries opened in it; None outside of one."""


def append(path: Path, facts: Mapping[str, Json]) -> None:
    """One more line; OSError leaves the file as it was.

    NotPrivate, a FleetError, if others could have written the file.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with open(open_file(path.parent, path.name, flags=flags), "a+b", buffering=0) as file:
        _cut_torn_line(file)
        line = encode(facts).encode() + b"\n"
        if file.write(line) != len(line):
            _cut_torn_line(file)
            raise OSError("no space for a whole line")


def _cut_torn_line(file: IO[bytes]) -> None:
    """A writer that died within a line did not begin the action: it is no entry."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 1))
    if file.read(1) not in (b"", b"\n"):
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoLogContent:
    """Content of one file."""

    path: Path
    open: tuple[UndoEntry, ...]
    """Oldest first."""
    next: int
    """The number after the greatest."""


def undo_logs(run_directory: Path) -> tuple[UndoLogContent, ...]:
    """Undo logs of a run and its twin. FleetError, which names the line, if one cannot be read.

    NotPrivate if others could have written one, NotOwned if it is another user's.
    """
    found = (_read(run_directory, names) for names in PLACES)
    return tuple(log for log in found if log is not None)


def open_undos(run_directory: Path) -> tuple[UndoEntry, ...]:
    """The open entries of a run and its twin, oldest first."""
    return tuple(entry for log in undo_logs(run_directory) for entry in log.open)


def undos_in_record(run_directory: Path) -> tuple[UndoEntry, ...]:
    """The same as a record shows it, also one of others: to be judged, and never to be carried out.

    FleetError, which names the line, if a log cannot be read.
    """
    found = (_read(run_directory, names, _read_of_anybody) for names in PLACES)
    return tuple(entry for log in found if log is not None for entry in log.open)


def may_have_open_undos(run_directory: Path) -> bool:
    """Whether it has open entries; a log that cannot be read may, another user's is not asked."""
    try:
        return bool(open_undos(run_directory))
    except NotOwned:
        return False
    except FleetError:
        return True


def is_owned(run_directory: Path) -> bool:
    """Whether its undo logs are this user's own."""
    try:
        for names in PLACES:
            lines_of(run_directory, names)
    except NotOwned:
        return False
    except FleetError:
        pass  # the next action on it says why it cannot be read
    return True


def logged_runs(root: Path) -> Iterator[Path]:
    """Every run under `root` that has an undo log, but not by way of a link."""
    runs = {path.parent for path in root.glob(f"*/*/{UNDO_LOG}")}
    runs |= {path.parent.parent for path in root.glob(f"*/*/twin/{UNDO_LOG}")}
    return (run for run in sorted(runs) if not (run.is_symlink() or run.parent.is_symlink()))


def _read(
    run_directory: Path, names: tuple[str, ...], content: _Content = read
) -> UndoLogContent | None:
    lines = lines_of(run_directory, names, content)
    if lines is None:
        return None
    path = run_directory.joinpath(*names)
    open_: dict[int, UndoEntry] = {}
    following = 0
    for facts in _entries(path, lines):
        if "open" in facts:
            number = _number(facts["open"])
            following = max(following, number + 1)
            open_[number] = UndoEntry(
                number=number, do=str(facts.get("do")), facts=facts, directory=path.parent
            )
        elif "close" in facts:
            open_.pop(_number(facts["close"]), None)
    return UndoLogContent(path=path, open=tuple(open_.values()), next=following)


def _read_of_anybody(run_directory: Path, *names: str) -> bytes | None:
    try:
        return read_regular(run_directory.joinpath(*names))
    except FileNotFoundError:
        return None


def lines_of(
    run_directory: Path, names: tuple[str, ...], content: _Content = read
) -> Sequence[bytes] | None:
    """The lines of a log, None if there is none; a torn last one is skipped: its action was not
    begun.
    """
    try:
        written = content(run_directory, *names)
    except OSError as error:
        path = run_directory.joinpath(*names)
        raise FleetError(f"{path} cannot be read: {error}") from error
    return None if written is None else written.split(b"\n")[:-1]


def _entries(path: Path, lines: Sequence[bytes]) -> Iterator[Mapping[str, Json]]:
    """Entries of the lines; FleetError, which names the line, if one is malformed."""
    for number, line in enumerate(lines, start=1):
        try:
            yield entry_in(line)
        except (ValueError, RecursionError, FleetError) as error:
            raise FleetError(
                f"{path}:{number} is not an undo entry ({error}): {line[:200]!r}; undo by hand "
                "what it may have meant, remove the line, and call `chaoslab heal` for the others"
            ) from error


def entry_in(line: bytes) -> Mapping[str, Json]:
    """One line of the file; ValueError or FleetError if it cannot be one."""
    facts = decode(line.decode())
    if not isinstance(facts, dict):
        raise ValueError("not a JSON object")
    for key in {"open", "close"} & set(facts):
        _number(facts[key])
    harness = facts.get("harness")
    if isinstance(harness, dict) and not names_process(harness):
        raise FleetError(f"not a process: {harness!r}")
    return facts


def _number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FleetError(f"{value!r} is not the number of an undo entry")
    return value
