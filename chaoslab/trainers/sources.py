"""Where a training's progress is read: output, files, event files, a page of metrics.

    from: output | stdout | stderr                          logs of a node, line by line
          {file: PATH}                                      the newest of a glob; may be rotated
          {json_lines: PATH, step: KEY, loss: KEY, lr: KEY}
          {csv: PATH, step: COLUMN, loss: COLUMN}           its first line names the columns
          {tensorboard: DIR, loss: TAG}                     all event files in it
          {wandb: DIR}                                      all offline runs in it
          {prometheus: URL, step: METRIC, loss: METRIC}     asked once a second

    source_of(SourceSettings.of(…), folder) ─► Source.read ─► [Said, …], what is new

What files held before a source was made is not read again: only logs of a node are read from their
beginning. A source never waits, but for a page of metrics, at most half a second.
"""

import csv
import glob
import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import urlsplit

from chaoslab.core.errors import PlanError
from chaoslab.trainers.event_files import EventFiles
from chaoslab.trainers.reading import MAX_SHOWN, OWN_LINES, Patterns, Reader, TrainerLine, plain
from chaoslab.trainers.values import Names, Rows, Values

_READ_BYTES: Final = 2**20
"""Most that one call reads of a file."""
_PAGE_BYTES: Final = 8 * 2**20
_POLL_S: Final = 1.0
_ANSWER_S: Final = 0.5
_NUMERIC: Final = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|[-+]?inf")


class From(StrEnum):
    """Kind of a source."""

    OUTPUT = "output"
    STDOUT = "stdout"
    STDERR = "stderr"
    FILE = "file"
    JSON_LINES = "json_lines"
    CSV = "csv"
    TENSORBOARD = "tensorboard"
    PROMETHEUS = "prometheus"
    WANDB = "wandb"


_STREAMS: Final = (From.OUTPUT, From.STDOUT, From.STDERR)
_PLACES: Final = tuple(kind for kind in From if kind not in _STREAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """`training.script.from` of a plan."""

    kind: From = From.OUTPUT
    place: str = ""
    """Path, folder or URL; empty for a stream."""
    patterns: Patterns = OWN_LINES
    """Patterns of lines."""
    names: Names = field(default_factory=Names)
    """Names of keys, tags or metrics."""

    @classmethod
    def of(
        cls, written: str | Mapping[str, str], patterns: Patterns = OWN_LINES
    ) -> "SourceSettings":
        """Source of a plan; PlanError with the key that is wrong."""
        if isinstance(written, str):
            if written not in _STREAMS:
                raise PlanError(
                    f"must be {', '.join(_STREAMS)}, or a place as in {{file: train.log}}, "
                    f"got {written!r}"
                )
            return cls(kind=From(written), patterns=patterns)
        kind = _kind(written)
        names = {key: text for key, text in written.items() if key != kind}
        if kind is From.FILE and names:
            raise PlanError("has lines, which patterns read: leave it out", key=next(iter(names)))
        if not written[kind]:
            raise PlanError("must not be empty", key=kind)
        if kind is From.PROMETHEUS:
            _require_page(written)
        return cls(kind=kind, place=written[kind], patterns=patterns, names=Names(**names))


def _kind(written: Mapping[str, str]) -> From:
    known = (*_PLACES, "step", "loss", "lr")
    for key in written:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise PlanError(f"unknown key: {meant}Keys are {', '.join(known)}", key=key)
    named = [kind for kind in _PLACES if kind in written]
    if len(named) != 1:
        raise PlanError(f"needs one of {', '.join(_PLACES)}, got {', '.join(named) or 'none'}")
    return named[0]


def _require_page(written: Mapping[str, str]) -> None:
    parts = urlsplit(url := written[From.PROMETHEUS])
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise PlanError(
            f"must be a URL such as http://127.0.0.1:9100/metrics, got {url!r}", key=From.PROMETHEUS
        )
    if not written.get("step"):
        raise PlanError("needs the name of the metric that counts steps", key="step")


class Source(Protocol):
    """Something that a training's progress is read from."""

    @property
    def nearest(self) -> str:
        """Unmatched text that is most similar to progress, up to 300 characters.

        Empty if all was understood, or nothing was there, and for one or two rows of values.
        """

    @property
    def lacks(self) -> str:
        """Expected files or values that are missing; empty if something new was understood."""

    @property
    def absent(self) -> str:
        """Names of the plan that no record has had; empty if nothing was read."""

    def read(self) -> list[TrainerLine]:
        """Records since the last call."""

    def close(self) -> None:
        """Close its files."""


def source_of(settings: SourceSettings, folder: Path) -> Source:
    """The source of a plan.

    `folder` has the logs of a node, `stdout.log` and `stderr.log`; other relative paths begin
    there.
    """
    place = str(folder / settings.place)
    if settings.kind in _STREAMS:
        names = ("stdout", "stderr") if settings.kind is From.OUTPUT else (settings.kind.value,)
        tails = [_Tail(str(folder / f"{name}.log"), skips=False) for name in names]
        return _Lines(tails, settings.patterns)
    if settings.kind is From.FILE:
        return _Lines([_Tail(place, skips=True)], settings.patterns)
    if settings.kind is From.JSON_LINES:
        return _Table(place, settings.names, _json_object)
    if settings.kind is From.CSV:
        return _Table(place, settings.names, _Columns().row)
    if settings.kind is From.PROMETHEUS:
        return MetricsPage(settings.place, settings.names)
    return EventFiles(Path(place), settings.names, is_wandb=settings.kind is From.WANDB)


# ---------------------------------------------------------------- lines of files


class _Tail:
    """New bytes of a file: the newest of a glob.

    A file that was replaced is read to its end first; one that was truncated, from its beginning.
    A newline stands between both. `skips` what is there at first.
    """

    def __init__(self, path: str, *, skips: bool) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._taken: dict[tuple[int, int], int] = {}
        """Bytes that were read of each file, by device and inode."""
        self._has_read = False
        for found in self._found() if skips else ():
            self._taken[_identity(found.stat())] = found.stat().st_size

    @property
    def lacks(self) -> str:
        if self._has_read:
            return ""
        is_there = bool(self._found())
        return f"{self._path} has not grown" if is_there else f"no file matches {self._path}"

    def read(self) -> bytes:
        """Read up to 1 MiB."""
        data = self._more()
        try:
            newest = max(self._found(), key=lambda one: (one.stat().st_mtime_ns, one), default=None)
            if data or newest is None or self._is_open(newest):
                return data
            opened = newest.open("rb")
        except FileNotFoundError:  # it was moved just now
            return data
        ended = b"\n" if self._file else b""
        self.close()
        self._file = opened
        return ended + self._more()

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _found(self) -> list[Path]:
        paths = [self._path] if os.path.exists(self._path) else glob.glob(self._path)
        return [Path(path) for path in paths if os.path.isfile(path)]

    def _is_open(self, path: Path) -> bool:
        return self._file is not None and (
            _identity(os.fstat(self._file.fileno())) == _identity(path.stat())
        )

    def _more(self) -> bytes:
        if self._file is None:
            return b""
        status = os.fstat(self._file.fileno())
        at = self._taken.get(_identity(status), 0)
        begins_anew = status.st_size < at
        self._file.seek(at := 0 if begins_anew else at)
        data = self._file.read(_READ_BYTES)
        self._taken[_identity(status)] = at + len(data)
        self._has_read |= bool(data)
        return b"\n" + data if begins_anew else data


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _Lines:
    """Logs of a node, or a file, that patterns read."""

    def __init__(self, tails: Sequence[_Tail], patterns: Patterns) -> None:
        self._streams = [(tail, Reader(patterns)) for tail in tails]

    @property
    def nearest(self) -> str:
        return next((reader.nearest for _, reader in self._streams if reader.nearest), "")

    @property
    def lacks(self) -> str:
        return self._streams[0][0].lacks

    @property
    def absent(self) -> str:
        return ""

    def read(self) -> list[TrainerLine]:
        return [said for tail, reader in self._streams for said in reader.feed(tail.read())]

    def close(self) -> None:
        for tail, _ in self._streams:
            tail.close()


def _json_object(line: bytes) -> Values | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class _Columns:
    """Lines of a table. One without a number names the columns of those that follow."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()

    def row(self, line: bytes) -> Values:
        """Values by column, without empty ones; nothing of a line that names the columns."""
        words = next(csv.reader([line.decode(errors="replace")]), [])
        if not any(map(_NUMERIC.fullmatch, words)):
            self._names = words
            return {}
        return {name: word for name, word in zip(self._names, words, strict=False) if word}


class _Table:
    """A file whose lines are values by name."""

    def __init__(
        self, path: str, names: Names, values_of: Callable[[bytes], Values | None]
    ) -> None:
        self._path, self._tail = path, _Tail(path, skips=True)
        self._rows, self._values_of = Rows(path, names), values_of
        self._rest = b""

    @property
    def nearest(self) -> str:
        return self._rows.shown

    @property
    def lacks(self) -> str:
        return self._tail.lacks or self._rows.newest

    @property
    def absent(self) -> str:
        return self._rows.absent

    def read(self) -> list[TrainerLine]:
        *lines, rest = (self._rest + self._tail.read()).split(b"\n")
        self._rest = rest[:_READ_BYTES]
        return [said for line in lines if line.strip() and (said := self._said(line))]

    def close(self) -> None:
        self._tail.close()

    def _said(self, line: bytes) -> TrainerLine | None:
        values, text = self._values_of(line), plain(line)
        if values is None:
            self._rows.add(f"{self._path} has a line that is no JSON object: {text}"[:MAX_SHOWN])
        return self._rows.said(values, text) if values else None


# ---------------------------------------------------------------- a page of metrics

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})?[ \t]+(\S+)", re.MULTILINE)
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MetricsPage:
    """A page in Prometheus' text format.

    A name stands for its first series, unless it has labels: `loss{rank="1"}`.
    """

    nearest: Final = ""
    """A metric may be named later."""

    def __init__(self, url: str, names: Names, now_s: Callable[[], float] = time.monotonic) -> None:
        self.lacks = ""
        self._url, self._rows, self._now_s = url, Rows(url, names), now_s
        self._due_s = 0.0
        self._last: tuple[int | None, str] | None = None

    @property
    def absent(self) -> str:
        """See `Source.absent`."""
        return self._rows.absent

    def read(self) -> list[TrainerLine]:
        """Values of the page, if a second has passed and they have changed."""
        if (now_s := self._now_s()) < self._due_s:
            return []
        self._due_s = now_s + _POLL_S
        try:
            with _DIRECT.open(self._url, timeout=_ANSWER_S) as answer:
                page = answer.read(_PAGE_BYTES).decode(errors="replace")
        except (OSError, HTTPException) as error:
            self.lacks = f"{self._url} does not answer: {error}"[:MAX_SHOWN]
            return []
        values: dict[str, str] = {}
        for name, labels, value in _SAMPLE.findall(page):
            values.setdefault(name, value)
            values[name + labels] = value
        said = self._rows.said(values, line=self._url)
        if said is None:
            self.lacks = self._rows.newest
            return []
        self.lacks = ""
        before, self._last = self._last, (said.step, repr(said.loss))
        return [] if self._last == before else [said]

    def close(self) -> None:
        """No-op: a connection lasts for one call."""
