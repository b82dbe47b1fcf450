"""The file of a journal: one line for each event, chained by hash to the one before it.

    {"seq":0,…,"chain":c0}    c0 = BLAKE2b(zeros + the line without its chain)
    {"seq":1,…,"chain":c1}    c1 = BLAKE2b(c0 + the line without its chain)
                       run.json ◄── how many lines, and the last chain, when the run is over

A writer that dies leaves a beginning of the file, and every beginning verifies by itself; what is
missing at the end of a finished run shows by run.json. That finds accidents and edits. A program
that rewrites both files can forge them, unless the digest was kept elsewhere.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from chaoslab.core.errors import FleetError
from chaoslab.core.events import DEPTH_MOST, Event, Json, Kind, MalformedEvent, decode
from chaoslab.core.regular_files import read_regular

JOURNAL = "journal.jsonl"
RUN_JSON = "run.json"
_SEALED = "journal"
"""The key of run.json."""
_OVER = frozenset({"completed", "aborted", "interrupted"})
_DIGEST_BYTES = 16
_NOTHING = bytes(_DIGEST_BYTES)
_CHAINED = re.compile(rb'\},"chain":"[0-9a-f]{%d}"\}\Z' % (2 * _DIGEST_BYTES))
_CHAINED_BYTES = 2 * _DIGEST_BYTES + len(',"chain":""}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Identifies a journal among all others: number of lines, and the last chain as hex."""

    lines: int
    digest: str

    def to_json(self) -> dict[str, Json]:
        """Object as in run.json and verdict.json."""
        return {"lines": self.lines, "digest": self.digest}


class JournalFile:
    """The writer's side. One writer, append only."""

    def __init__(self, directory: Path, *, lines_at_once: int = 1) -> None:
        """Begin it; OSError if it is there already, or cannot be made.

        `lines_at_once`: lines wait until there are this many, and are written together.
        """
        self._file = (directory / JOURNAL).open("xb", buffering=0)
        self._bytes, self._chain = 0, _NOTHING
        self._seal = 0, _NOTHING
        """Lines in the file, and the chain of the last one."""
        self._lines_at_once = lines_at_once
        self._waiting: list[bytes] = []

    @property
    def seal(self) -> Seal:
        """Seal of everything written up to now."""
        lines, chain = self._seal
        return Seal(lines=lines, digest=chain.hex())

    def append(self, line: str) -> None:
        """A JSON object without a newline; with the last of `lines_at_once` they are on their way
        to the disk when this returns.

        All of them or nothing: OSError leaves the file as it was, for a disk may become full in the
        midst of a line. Then this line is dropped, and those before it go on waiting.
        """
        body, before = line.encode()[:-1], self._chain
        self._chain = _next(before, body)
        self._waiting.append(body + _link(self._chain) + b"\n")
        if len(self._waiting) < self._lines_at_once:
            return
        try:
            self.flush()
        except OSError:
            self._waiting.pop()
            self._chain = before
            raise

    def flush(self) -> None:
        """Write what waits; OSError leaves the file as it was."""
        if self._waiting:
            self._write(b"".join(self._waiting))
            self._seal = self._seal[0] + len(self._waiting), self._chain
            self._waiting.clear()

    def _write(self, lines: bytes) -> None:
        try:
            written = self._file.write(lines)
            while written < len(lines):  # what did not fit is refused now, with the reason
                written += self._file.write(lines[written:])
        except OSError:
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)
            raise
        self._bytes += len(lines)

    def close(self) -> None:
        """Write what waits; nothing can be written after it."""
        try:
            self.flush()
        finally:
            self._file.close()


# ---------------------------------------------------------------- reading


def read_journal(directory: Path) -> tuple[Sequence[Event], Seal]:
    """The events in a run's directory, and what seals them.

    A torn last line is left out. FleetError names file and line if anything is missing, is no
    event, or is not what was written.
    """
    path = directory / JOURNAL
    seal_said = sealed(directory)  # before the lines: a run that goes on appends, then seals
    is_over = _is_over(directory)
    written = _written(path)
    events, seal = _read(written, path)
    is_whole = not written or written.endswith(b"\n")
    if seal_said is None and is_over:
        raise _damaged(f"{directory / RUN_JSON} lacks the digest of {JOURNAL}", "the run is over")
    _verify(path, seal, seal_said, is_whole=is_whole)
    return events, seal


@lru_cache(maxsize=2)
def _read(written: bytes, path: Path) -> tuple[Sequence[Event], Seal]:
    """The events in a file that holds these bytes, and their seal.

    Kept of the latest two files, a run and its twin: one that still holds the same bytes when it is
    read again, as a kept twin that was fetched and is judged, need not be taken apart again.
    """
    events = list[Event]()
    lines = _lines(written)
    chain = _NOTHING
    are_plain = _is_plain(written)
    for number, line in enumerate(lines):
        quick = _quickly(line) if are_plain or _is_plain(line) else None
        events.append(quick if quick and quick.seq == number else _event(line, number, path))
        chain = _next(chain, line[:-_CHAINED_BYTES])
        if not line.endswith(_link(chain)):
            has_chain = _CHAINED.search(line) is not None
            why = "it, or the line before it, is not what the harness wrote there"
            raise _damaged(f"{path}:{number + 1} was changed", why if has_chain else "no `chain`")
    return tuple(events), Seal(lines=len(events), digest=chain.hex())


def sealed(directory: Path) -> Seal | None:
    """Seal of the journal's end in run.json; None if the run did not live to write it."""
    path = directory / RUN_JSON
    try:
        said = _facts(path).get(_SEALED)
        return None if said is None else Seal(lines=int(said["lines"]), digest=str(said["digest"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise _damaged(f"{path} cannot be read", str(error)) from error


def _is_over(directory: Path) -> bool:
    """Whether run.json has what is written together with the digest when a run is over.

    A twin whose digest could not be written is "broken", and has none.
    """
    facts = _facts(directory / RUN_JSON)
    return _SEALED in facts or facts.get("outcome") in _OVER


def _facts(path: Path) -> dict[str, Any]:
    """Content of run.json; {} without one. OSError or ValueError if it cannot be read."""
    try:
        facts = decode(read_regular(path).decode())
    except FileNotFoundError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _verify(path: Path, found: Seal, said: Seal | None, *, is_whole: bool) -> None:
    """FleetError unless a sealed journal ends as it did then, with a whole line."""
    if said is None or (found == said and is_whole):
        return
    if found == said:
        why = "it ended with a whole line when the run ended, and does not now"
    elif found.lines == said.lines:
        why = f"it ended with the digest {said.digest}, and ends with {found.digest}"
    else:
        why = f"it had {said.lines} lines when the run ended, and has {found.lines}"
    raise _damaged(f"{path} is not what {RUN_JSON} says", why)


def _next(chain: bytes, body: bytes) -> bytes:
    """The chain of a line; `body` is that line without its chain and the brace that closes it."""
    return hashlib.blake2b(chain + body + b"}", digest_size=_DIGEST_BYTES).digest()


def _link(chain: bytes) -> bytes:
    """The end of a line, in the place of the brace that closes it."""
    return f',"chain":"{chain.hex()}"}}'.encode()


def _written(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise _damaged(f"{path} cannot be read", error.strerror or str(error)) from error


def _lines(written: bytes) -> list[bytes]:
    """The whole ones, and a last one without its newline if nothing else is missing from it."""
    *whole, tail = written.split(b"\n")
    try:
        Event.from_line(tail.decode())
    except (MalformedEvent, UnicodeDecodeError):
        return whole  # the writer died in the middle of its last line
    return [*whole, tail]


class _Head(msgspec.Struct, frozen=True, gc=False, rename={"unread": "data"}):
    """The attributes of an event whose data are valid JSON and not parsed yet."""

    seq: int
    time_s: float
    source: str
    kind: Kind
    unread: msgspec.Raw
    wall: str = ""
    node_s: float | None = None


_HEAD = msgspec.json.Decoder(_Head)
_OBJECT, _LIST, _ESCAPE = b"{[\\"
_OBJECTS_BYTES = len('{"":}') * DEPTH_MOST
"""Least bytes of this many objects, each in the one before it."""


def _event(line: bytes, number: int, path: Path) -> Event:
    try:
        event = Event.from_line(line.decode())
    except (MalformedEvent, UnicodeDecodeError) as error:
        raise _damaged(f"{path}:{number + 1} is no event", str(error)) from error
    if event.seq == number:  # lines are numbered from zero, without gaps
        return event
    why = f"its seq is {event.seq}, and {number} belongs there"
    raise _damaged(f"{path}:{number + 1} is out of order", why)


def _is_plain(text: bytes) -> bool:
    """Whether no character in it can break a rule of `decode`."""
    return text.isascii() and (_ESCAPE not in text or b"\\u" not in text)


def _quickly(line: bytes) -> Event | None:
    """The event in a plain line, without its data; None if `Event.from_line` must have a look: at
    one that may be nested too deep, or is malformed, which it says in its own words.
    """
    may_be_deep = _LIST in line or len(line) > _OBJECTS_BYTES
    if may_be_deep and line.count(b"[") + line.count(b"{") > DEPTH_MOST:
        return None
    try:
        head = _HEAD.decode(line)
    except msgspec.DecodeError:
        return None
    if memoryview(head.unread)[0] != _OBJECT:
        return None
    return Event.unparsed(asdict(head))


def _damaged(what: str, why: str) -> FleetError:
    return FleetError(
        f"{what}: {why}; a damaged record does not show what happened: put back a copy of "
        "the file, or run the plan again"
    )
