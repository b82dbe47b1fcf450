"""Durable state: the syncer's fragments and event tape, and a learner's own checkpoints.

    <directory>/specs.json            the tensors, written once
    <directory>/fragment-3.a, .b      two slots: the current version and the one before it
    <directory>/tape.jsonl            one line for each merge: the commit

A merge is written to the slot that holds the older version, flushed to the disk, and then committed
by its line on the tape; only after that may anybody see the version. A process that dies before the
line was whole leaves the older version in force, and its half-written slot is never read. Every
slot names its tensors and carries a checksum, so neither parameters nor outer momentum are ever
taken from a wrong or damaged place.

The tape says who contributed what to each merge; replaying it gives the same training.
"""

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np

from chaoslab.diloco.fragments import FloatArray
from chaoslab.events import Json

_SPECS = "specs.json"
_TAPE = "tape.jsonl"
_SLOTS = ("a", "b")
_HEAD_BYTES_MAX = 1 << 24


class CorruptState(ValueError):
    """A file that must be whole is damaged; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One learner's part of a merge, as the tape keeps it."""

    learner: str
    incarnation: int
    epoch: int
    step: int
    c_steps: int
    c_tokens: int
    weight: float
    tokens_from: int
    tokens_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeLine:
    """One merge: what it made of which version, from whom, and where everything stood then."""

    round: int
    fragment: int
    version: int
    """What the merge made; version 0 is the initial parameters, with round 0."""
    begun: int
    """Rounds ever begun."""
    contributors: tuple[Given, ...] = ()
    last_epoch: int = 0
    incarnations: Mapping[str, int] = field(default_factory=dict)
    data_positions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """Global parameters and outer momentum of one fragment, by tensor name, float32."""

    theta: Mapping[str, FloatArray]
    momentum: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """All that was committed."""

    specs_json: str
    tape: tuple[TapeLine, ...]
    fragments: Mapping[int, Tensors]

    @property
    def versions(self) -> tuple[int, ...]:
        """The version vector."""
        latest = {line.fragment: line.version for line in self.tape}
        return tuple(latest[fragment] for fragment in sorted(latest))


class SyncerStore:
    """The syncer's disk. `durable=False` does not wait for the disk: faster, and lost in a crash."""

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self._directory = directory
        self._durable = durable
        self._tape: BinaryIO | None = None

    def begin(self, specs_json: str, fragments: Mapping[int, Tensors]) -> None:
        """Commit the initial parameters as version 0 of every fragment."""
        self._directory.mkdir(parents=True, exist_ok=True)
        _write_whole(self._directory / _SPECS, specs_json.encode(), durable=self._durable)
        lines = []
        for index, tensors in fragments.items():
            self._write_slot(index, 0, tensors)
            lines.append(TapeLine(round=0, fragment=index, version=0, begun=0))
        whole = "".join(_to_text(line) for line in lines).encode()
        _write_whole(self._directory / _TAPE, whole, durable=self._durable)

    def save_round(self, line: TapeLine, tensors: Tensors) -> None:
        """Commit one merge. When this returns, it outlives the process."""
        self._write_slot(line.fragment, line.version, tensors)
        if self._tape is None:
            self._tape = (self._directory / _TAPE).open("ab")
        self._tape.write(_to_text(line).encode())
        self._tape.flush()
        if self._durable:
            os.fsync(self._tape.fileno())

    def load(self) -> StoredState | None:
        """What was committed; None if training never began here. CorruptState names what is bad."""
        tape_file = self._directory / _TAPE
        if not tape_file.exists():
            return None
        tape = self._read_tape(tape_file)
        latest = {line.fragment: line.version for line in tape}
        return StoredState(
            specs_json=(self._directory / _SPECS).read_text(),
            tape=tape,
            fragments={index: self._read_slot(index, version) for index, version in latest.items()},
        )

    # ------------------------------------------------------------ inside

    def _slot(self, index: int, version: int) -> Path:
        return self._directory / f"fragment-{index}.{_SLOTS[version % len(_SLOTS)]}"

    def _write_slot(self, index: int, version: int, tensors: Tensors) -> None:
        arrays = [*tensors.theta.values(), *tensors.momentum.values()]
        head = {
            "fragment": index,
            "version": version,
            "tensors": [[name, list(array.shape)] for name, array in tensors.theta.items()],
            "checksum": _checksum(arrays),
        }
        if list(tensors.theta) != list(tensors.momentum):
            raise ValueError("parameters and momentum of a fragment name the same tensors")
        with self._slot(index, version).open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            for array in arrays:
                file.write(_little(array))
            file.flush()
            if self._durable:
                os.fsync(file.fileno())

    def _read_slot(self, index: int, version: int) -> Tensors:
        path = self._slot(index, version)
        try:
            with path.open("rb") as file:
                head = json.loads(file.readline(_HEAD_BYTES_MAX))
                named = [(str(name), tuple(shape)) for name, shape in head["tensors"]]
                theta = {name: _read_array(file, shape) for name, shape in named}
                momentum = {name: _read_array(file, shape) for name, shape in named}
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"{path} cannot be read: {error}") from error
        if (head["fragment"], head["version"]) != (index, version):
            raise CorruptState(f"{path} holds version {head['version']}, not {version}")
        if _checksum([*theta.values(), *momentum.values()]) != head["checksum"]:
            raise CorruptState(f"{path} is damaged: its checksum does not fit")
        return Tensors(theta=theta, momentum=momentum)

    def _read_tape(self, path: Path) -> tuple[TapeLine, ...]:
        """All whole lines; a torn last one is cut off, so that the next follows cleanly."""
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content) and self._tape is None:
            os.truncate(path, len(whole))
        lines = []
        for number, text in enumerate(whole.splitlines(), start=1):
            try:
                lines.append(_from_text(text))
            except (KeyError, TypeError, ValueError) as error:
                raise CorruptState(f"{path}, line {number}: {error}") from error
        return tuple(lines)


# ---------------------------------------------------------------- learners


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerCheckpoint:
    """A learner's own newest whole checkpoint."""

    step: int
    data_position: int
    payload: bytes
    skipped: tuple[str, ...]
    """Newer ones that were damaged, with the reason."""


class LearnerStore:
    """Keeps the newest two checkpoints of a learner; writes them on a thread of its own.

    `fingerprint` is that of the model; checkpoints of another model are skipped like damaged ones.
    """

    _KEPT = 2

    def __init__(self, directory: Path, *, fingerprint: str = "") -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._writer: threading.Thread | None = None

    def save_later(self, *, step: int, data_position: int, payload: Callable[[], bytes]) -> None:
        """Write a checkpoint soon; left out while the one before is still being written."""
        if self._writer is not None and self._writer.is_alive():
            return
        self._writer = threading.Thread(
            target=lambda: self.save(step=step, data_position=data_position, payload=payload()),
            name="checkpoint",
        )
        self._writer.start()

    def save(self, *, step: int, data_position: int, payload: bytes) -> None:
        """Write a checkpoint whole, then remove those older than the newest two."""
        head: dict[str, Json] = {
            "step": step,
            "data_position": data_position,
            "fingerprint": self._fingerprint,
            "checksum": blake2b(payload, digest_size=16).hexdigest(),
        }
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{step:012d}.checkpoint"
        _write_whole(path, json.dumps(head).encode() + b"\n" + payload, durable=True)
        for old in self._newest_first()[self._KEPT :]:
            old.unlink(missing_ok=True)

    def load_newest(self) -> LearnerCheckpoint | None:
        """The newest whole checkpoint; None if there is none."""
        skipped: list[str] = []
        for path in self._newest_first():
            try:
                head_line, payload = path.read_bytes().split(b"\n", 1)
                head = json.loads(head_line)
                if head["fingerprint"] != self._fingerprint:
                    raise ValueError("it belongs to another model")
                if head["checksum"] != blake2b(payload, digest_size=16).hexdigest():
                    raise ValueError("its checksum does not fit")
                return LearnerCheckpoint(
                    step=int(head["step"]),
                    data_position=int(head["data_position"]),
                    payload=payload,
                    skipped=tuple(skipped),
                )
            except (OSError, KeyError, TypeError, ValueError) as error:
                skipped.append(f"{path.name}: {error}")
        return None

    def close(self) -> None:
        """Wait until what was begun is written."""
        if self._writer is not None:
            self._writer.join()

    def _newest_first(self) -> Sequence[Path]:
        return sorted(self._directory.glob("*.checkpoint"), reverse=True)


# ---------------------------------------------------------------- bytes


def _to_text(line: TapeLine) -> str:
    return json.dumps(asdict(line), separators=(",", ":")) + "\n"


def _from_text(text: bytes) -> TapeLine:
    fields = json.loads(text)
    given = tuple(Given(**one) for one in fields.pop("contributors"))
    return TapeLine(contributors=given, **fields)


def _write_whole(path: Path, content: bytes, *, durable: bool) -> None:
    """The file appears with all of its content, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    partial.replace(path)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _little(array: FloatArray) -> memoryview:
    return np.ascontiguousarray(array, "<f4").reshape(-1).view(np.uint8).data


def _read_array(file: BinaryIO, shape: tuple[int, ...]) -> FloatArray:
    size = int(np.prod(shape, dtype=np.int64))
    flat = np.fromfile(file, "<f4", size)
    if flat.size != size:
        raise ValueError(f"it ends {size - flat.size} floats too early")
    return flat.astype(np.float32, copy=False).reshape(shape)


def _checksum(arrays: Sequence[FloatArray]) -> str:
    total = blake2b(digest_size=16)
    for array in arrays:
        total.update(_little(array))
    return total.hexdigest()
