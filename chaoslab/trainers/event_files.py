"""Files of records that libraries write: event files of TensorBoard, offline runs of W&B.

    TensorBoard   uint64 length | uint32 CRC | record | uint32 CRC | …              a record: Event
    W&B           header, then 32 KiB blocks of  uint32 CRC | uint16 length | uint8 part | bytes
                  a record: one whole part, or a first, middle and last one          Record

Both are protocol buffers; the few fields with steps and scalars are read here. Checksums
are not: a torn tail shows by its length, and is read again when there is more. Formats:
tensorflow/core/util/event.proto, framework/summary.proto and tensor.proto;
wandb/sdk/internal/datastore.py and wandb/proto/wandb_internal.proto at b6e2950588.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chaoslab.trainers.reading import MAX_SHOWN, TrainerLine
from chaoslab.trainers.values import Names, Rows, Values

MAX_RECORD_BYTES: Final = 32 * 2**20
"""A longer record is no event: its file is something else, or damaged."""

_BLOCK_BYTES: Final = 32 * 1024
_LENGTH = struct.Struct("<QI")
_CRC_BYTES: Final = 4
_PART = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class EventFiles:
    """A source: all event files in a folder, also those that a restarted training begins.

    What they hold when it is made is not read again.
    """

    def __init__(self, folder: Path, names: Names, *, is_wandb: bool) -> None:
        self._folder, self._is_wandb, self._names = folder, is_wandb, names
        self._name = "*.wandb" if is_wandb else "*tfevents*"
        self._read: dict[Path, int] = {}
        self._damaged: dict[Path, str] = {}
        self._trouble, self._rows = "", self._no_rows()
        before = None
        while before != self._read:
            before = dict(self._read)
            self.read()
        self._trouble, self._rows, self._had = "", self._no_rows(), before

    @property
    def nearest(self) -> str:
        """See `Source.nearest`."""
        return next(iter(self._damaged.values()), self._rows.shown)

    @property
    def lacks(self) -> str:
        """See `Source.lacks`."""
        if self._read != self._had:
            return self._rows.newest
        if self._trouble or self._files():
            return self._trouble or f"no event file in {self._folder} has grown"
        return f"no file matches {self._folder}/**/{self._name}"

    @property
    def absent(self) -> str:
        """See `Source.absent`."""
        return self._rows.absent

    def read(self) -> list[TrainerLine]:
        """Records since the last call."""
        return [
            said
            for path in self._files() if path not in self._damaged
            for said in self._new(path)
        ]  # fmt: skip

    def _files(self) -> list[Path]:
        return [self._folder] if self._folder.is_file() else sorted(self._folder.rglob(self._name))

    def close(self) -> None:
        """No-op: files are open only while they are read."""

    def _new(self, path: Path) -> list[TrainerLine]:
        at = self._read.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(at)
                data = file.read(2 * MAX_RECORD_BYTES)
        except OSError as error:
            self._trouble = f"{path} cannot be read: {error.strerror}"[:MAX_SHOWN]
            return []
        try:
            records, taken = wandb_records(data, at) if self._is_wandb else event_records(data)
            rows = [(wandb_row if self._is_wandb else event_row)(record) for record in records]
        except ValueError as wrong:
            self._damaged[path] = f"{path} cannot be read beyond byte {at:,}: {wrong}"[:MAX_SHOWN]
            return []
        self._read[path] = at + taken
        return [said for values in rows if values and (said := self._rows.said(values))]

    def _no_rows(self) -> Rows:
        return Rows(str(self._folder), self._names, are_events=not self._is_wandb)


# ---------------------------------------------------------------- records of a file


def event_records(data: bytes) -> tuple[list[bytes], int]:
    """The whole records of an event file in `data`, and how many bytes they take.

    ValueError if it is no event file.
    """
    records, at = [], 0
    while at + _LENGTH.size <= len(data):
        length, _ = _LENGTH.unpack_from(data, at)
        if length > MAX_RECORD_BYTES:
            raise ValueError(f"a record of {length:,} bytes")
        begin = at + _LENGTH.size
        if begin + length + _CRC_BYTES > len(data):
            break
        records.append(data[begin : begin + length])
        at = begin + length + _CRC_BYTES
    return records, at


def wandb_records(data: bytes, start: int) -> tuple[list[bytes], int]:
    """The same of a W&B run, of which `data` begins at byte `start`."""
    at = done = 0
    if start == 0:
        if len(data) < _PART.size:
            return [], 0
        if data[:4] != b":W&B":
            raise ValueError("no header of W&B")
        at = done = _PART.size
    records, record = [], b""
    while at + _PART.size <= len(data):
        left = _BLOCK_BYTES - (start + at) % _BLOCK_BYTES
        if left < _PART.size:
            at += left
            continue
        _, length, part = _PART.unpack_from(data, at)
        if not _WHOLE <= part <= _LAST:
            raise ValueError(f"a part of kind {part}")
        at += _PART.size + length
        if at > len(data):
            break
        record = (b"" if part in {_WHOLE, _FIRST} else record) + data[at - length : at]
        if part in {_WHOLE, _LAST}:
            records.append(record)
            done = at
    return records, done


# ---------------------------------------------------------------- values of a record


def event_row(event: bytes) -> Values:
    """Scalars of an Event by tag, and its `step`; empty if it has none. ValueError if torn."""
    step, values = 0, dict[str, object]()
    for number, content in _fields(event):
        if number == 2:
            step, _ = _varint(content, 0)
        elif number == 5:
            summaries = [_summary(value) for part, value in _fields(content) if part == 1]
            values.update((tag, value) for tag, value in summaries if value is not None)
    return {**values, "step": step} if values else {}


def _summary(value: bytes) -> tuple[str, float | None]:
    """Tag and scalar of a Summary.Value; None if it has another kind of value."""
    tag, scalar = "", None
    for number, content in _fields(value):
        if number == 1:
            tag = content.decode(errors="replace")
        elif number == 2:
            scalar = _float(content)
        elif number == 8:
            scalar = _tensor(content)
    return tag, scalar


def _tensor(tensor: bytes) -> float | None:
    """The number of a TensorProto of one DT_FLOAT or DT_DOUBLE, by content or by value."""
    kind = 0
    for number, content in _fields(tensor):
        if number == 1:
            kind, _ = _varint(content, 0)
        elif number in {4, 5, 6} and kind in {1, 2}:
            return _float(content)
    return None


def _float(content: bytes) -> float | None:
    form = {4: "<f", 8: "<d"}.get(len(content))
    return float(struct.unpack(form, content)[0]) if form else None


def wandb_row(record: bytes) -> Values:
    """A row of W&B's history, with its `_step`; empty for other records. ValueError if torn."""
    values: dict[str, object] = {}
    for number, content in _fields(record):
        for part, value in _fields(content) if number == 2 else ():
            if part == 1:
                key, text = _item(value)
                values[key] = json.loads(text)
            elif part == 2:
                numbers = [_varint(n, 0)[0] for field, n in _fields(value) if field == 1]
                values.setdefault("_step", sum(numbers))
    return values


def _item(item: bytes) -> tuple[str, str]:
    """Key of a HistoryItem, which may be nested, and its value in JSON."""
    key, nested, text = "", [], "null"
    for number, content in _fields(item):
        value = content.decode(errors="replace")
        if number == 1:
            key = value
        elif number == 2:
            nested.append(value)
        elif number == 16:
            text = value
    return key or ".".join(nested), text


# ---------------------------------------------------------------- protocol buffers


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each field of a message. ValueError if it is torn, or none."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        begin, kind = at, tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind == 2:
            size, begin = _varint(message, at)
            at = begin + size
        elif kind in {1, 5}:
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > len(message):
            raise ValueError("a torn field")
        yield tag >> 3, message[begin:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), message[at : at + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + shift // 7 + 1
    raise ValueError("a torn number")
