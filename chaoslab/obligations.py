"""What a run owes: how to undo each thing that it does, written down before it is done.

    harness ── open: how to undo, flushed BEFORE the action ──► obligations.jsonl ──► owed, holder
            ── close: undone and verified ──────────────────►
            ── held_by: this process runs it now ───────────►

One writer while the harness lives; afterwards whoever heals. Nothing here undoes anything: that is
`undo`'s, and who does it when is `janitor`'s.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

from chaoslab.errors import FleetError
from chaoslab.events import Json, encode
from chaoslab.fleet.identity import (
    Identity,
    boot_id,
    identify,
    is_same,
    meant_by,
    names_process,
)
from chaoslab.fleet.tree import is_running
from chaoslab.lifeline import StillThere
from chaoslab.undo import Obligation, lets_go, looks, still_there

OBLIGATIONS = "obligations.jsonl"
_OWN = frozenset({"open", "do"})
"""What an entry says beside the facts of its verb."""


class Obligations:
    """The writer for one run; satisfies `fleet.base.ObligationLog`.

    While the process that made it lives, the run counts as running and `heal` leaves it alone;
    used as a context manager, until the block ends.
    """

    def __init__(self, run_directory: Path) -> None:
        """Continues a file that is there; FleetError when the disk refuses."""
        self._path = run_directory / OBLIGATIONS
        self._next = _read(self._path).next if self._path.exists() else 0
        self._until_s: float | None = None
        self._open: set[int] = set()
        self._opening: list[Obligation] | None = None
        """What was opened in the block of `due_within`; None outside of one."""
        holder = identify(os.getpid())
        if holder is not None:
            self._append({"held_by": {**holder.facts, "host": socket.gethostname()}})

    def __enter__(self) -> "Obligations":
        return self

    def __exit__(self, *_: object) -> None:
        self._append_if_possible({"held_by": None})

    def open(self, do: str, **facts: Json) -> int:
        """Write down how to undo what is about to be done; on disk when this returns."""
        number, self._next = self._next, self._next + 1
        until: dict[str, Json] = {}
        if self._until_s is not None:
            until = {"until_s": self._until_s, "boot_id": boot_id()}
        entry: dict[str, Json] = {"open": number, "do": do, **until, **facts}
        self._append(entry)
        self._open.add(number)
        if self._opening is not None:
            self._opening.append(Obligation(number=number, do=do, facts=entry))
        return number

    def close(self, number: int) -> None:
        """It is undone, and that was verified.

        A full disk does not keep the rest from being undone: the entry stays open, and doing an
        undo twice is safe.
        """
        self._open.discard(number)
        self._append_if_possible({"close": number})

    @contextmanager
    def due_within(self, for_s: float | None) -> Iterator[StillThere]:
        """What is opened in the block holds for so long; None: until the end of the run.

        Yields what tells, at any later time, how much of it is still there.
        """
        self._until_s = None if for_s is None else time.monotonic() + for_s
        opened: list[Obligation] = []
        self._opening = opened
        try:
            yield partial(self._still_there, opened)
        finally:
            self._until_s = self._opening = None

    def _still_there(self, opened: list[Obligation]) -> tuple[str, ...]:
        """What was closed all the same is owed again. Of what nobody can see the book tells."""
        found: list[str] = []
        for index, owed in enumerate(opened):
            if not lets_go(owed):
                continue
            there, is_open = still_there(owed), owed.number in self._open
            if there and not is_open:
                facts = {key: value for key, value in owed.facts.items() if key not in _OWN}
                number = self.open(owed.do, **facts)
                opened[index] = replace(owed, number=number)
            elif is_open and not there and not looks(owed):
                there = (f"{owed.do} is owed for {owed.facts.get('node') or 'a link'}",)
            found += there
        return tuple(found)

    def _append(self, facts: Mapping[str, Json]) -> None:
        try:
            append(self._path, facts)
        except OSError as error:
            raise FleetError(
                f"{self._path} cannot be written ({error}), and what cannot be undone is not done"
            ) from error

    def _append_if_possible(self, facts: Mapping[str, Json]) -> None:
        try:
            append(self._path, facts)
        except OSError as error:
            logging.getLogger(__name__).warning("%s cannot be written: %s", self._path, error)


def append(path: Path, facts: Mapping[str, Json]) -> None:
    """One more line, on disk when this returns; OSError leaves the file as it was."""
    with path.open("ab", buffering=0) as file:
        _cut_torn_line(path, file)
        line = encode(facts).encode() + b"\n"
        if file.write(line) != len(line):
            _cut_torn_line(path, file)
            raise OSError("no space for a whole line")
        os.fsync(file.fileno())


def _cut_torn_line(path: Path, file: IO[bytes]) -> None:
    """A writer that died within a line did not begin the action: nobody owes for it."""
    written = path.read_bytes()
    if written and not written.endswith(b"\n"):
        file.truncate(written.rfind(b"\n") + 1)


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What stands in one file."""

    path: Path
    owed: tuple[Obligation, ...]
    """Oldest first."""
    next: int
    """The number after the greatest."""


def books(run_directory: Path) -> tuple[Book, ...]:
    """Those of a run and its twin. FleetError, which names the line, if one cannot be read."""
    return tuple(map(_read, _places(run_directory)))


def open_obligations(run_directory: Path) -> tuple[Obligation, ...]:
    """What is still owed for a run and its twin, oldest first."""
    return tuple(owed for book in books(run_directory) for owed in book.owed)


def may_owe(run_directory: Path) -> bool:
    """Whether it owes something; a book that cannot be read may."""
    try:
        return bool(open_obligations(run_directory))
    except FleetError:
        return True


def holder_of(run_directory: Path) -> Identity | None:
    """The harness on this machine that runs it or its twin now.

    A damaged line says nothing, and hides no other; nor does a process that cannot be known from
    here (`unknown_holder`).
    """
    for one in _holders(run_directory):
        with suppress(FleetError):
            who = None if _where_else(one) else meant_by(one)
            if who and is_same(who) and is_running(who.pid):
                return who
    return None


def unknown_holder(run_directory: Path) -> str:
    """Why nobody can tell from here whether it or its twin is being run; empty if that is clear."""
    return next(filter(None, map(_why_unknown, _holders(run_directory))), "")


def runs_that_owe(root: Path) -> tuple[Path, ...]:
    """Every run under `root` that may owe something, whether somebody runs it or not."""
    runs = {path.parent for path in root.glob(f"*/*/{OBLIGATIONS}")}
    runs |= {path.parent.parent for path in root.glob(f"*/*/control/{OBLIGATIONS}")}
    return tuple(
        run
        for run in sorted(runs)
        if not (run.is_symlink() or run.parent.is_symlink()) and may_owe(run)
    )


def _read(path: Path) -> Book:
    owed: dict[int, Obligation] = {}
    following = 0
    for facts in _lines(path):
        if "open" in facts:
            number = _number(facts["open"])
            following = max(following, number + 1)
            owed[number] = Obligation(number=number, do=str(facts.get("do")), facts=facts)
        elif "close" in facts:
            owed.pop(_number(facts["close"]), None)
    return Book(path=path, owed=tuple(owed.values()), next=following)


def _places(run_directory: Path) -> list[Path]:
    places = (run_directory / OBLIGATIONS, run_directory / "control" / OBLIGATIONS)
    return [path for path in places if path.exists()]


def _holders(run_directory: Path) -> list[Mapping[str, Json]]:
    """Of a run and its twin, who said last that it runs this, and has not said that it is over."""
    return [one for path in _places(run_directory) if (one := _holder(path)) is not None]


def _holder(path: Path) -> Mapping[str, Json] | None:
    holder: Mapping[str, Json] | None = None
    for line in _whole(path):
        with suppress(ValueError, RecursionError, FleetError):
            facts = _entry(line)
            if "held_by" in facts:
                held_by = facts["held_by"]
                holder = held_by if isinstance(held_by, Mapping) else None
    return holder


def _why_unknown(holder: Mapping[str, Json]) -> str:
    """Engines are shared, and so may the disk be."""
    if host := _where_else(holder):
        return f"it was run on {host}, and may still be: heal it there"
    try:
        meant_by(holder)
    except FleetError as error:
        return str(error)
    return ""


def _where_else(holder: Mapping[str, Json]) -> str:
    """Its machine, unless that is this one."""
    host = str(holder.get("host", ""))
    return "" if host == socket.gethostname() else host


def _whole(path: Path) -> list[bytes]:
    """The lines; a torn last one is skipped: its action was not begun."""
    try:
        *whole, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error}") from error
    return whole


def _lines(path: Path) -> Iterator[Mapping[str, Json]]:
    """The entries; FleetError, which names the line, if one is none."""
    for number, line in enumerate(_whole(path), start=1):
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
    held_by = facts.get("held_by")
    if isinstance(held_by, dict) and not names_process(held_by):
        raise FleetError(f"no process is meant by {held_by!r}")
    return facts


def _number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FleetError(f"{value!r} is not the number of an obligation")
    return value
