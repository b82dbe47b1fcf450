"""Store of the syncer: fragments and commit log on disk; for learners see `learner.checkpoints`.

    <directory>/specs.json            the tensors, written once
    <directory>/fragment-3.a, .b      two slots: the current version and the one before it
    <directory>/commits.jsonl            one line for each merge: the commit log
    <directory>/reserved.json         rounds and epochs that may have been assigned, merged or not

A merge is written to the slot with the older version, flushed, and then committed by its line in
the commit log; only after that is the version published. If the process dies before the line is
complete, the older version stays valid and the half-written slot is ignored. The newline that
completes a line is flushed after the line: a disk writes sectors in any order, and a line whose end
was written first would look damaged. Every slot names its tensors and has a checksum, so parameters
and outer momentum are never read from a wrong or damaged place.

A slot that is damaged later makes `load` fail.
"""

import fcntl
import json
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from chaoslab.core.events import Json, encode
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.node.checksummed_file import CorruptState, read_checksummed, write_checksummed
from chaoslab.diloco.node.files import File, atomic_write, flush_all, flush_folder, make_folder
from chaoslab.diloco.syncer.commit_log import (
    CommitRecord,
    HasBegun,
    Reserved,
    latest,
    read_commit_log,
)

_SPECS = "specs.json"
_COMMIT_LOG = "commits.jsonl"
_RESERVED = "reserved.json"
_SLOTS = ("a", "b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """Global parameters and outer momentum of one fragment, by tensor name, float32."""

    theta: Mapping[str, FloatArray]
    momentum: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """Committed state: fragments and commit log."""

    specs_json: str
    commit_log: tuple[CommitRecord, ...]
    fragments: Mapping[int, Tensors]

    @property
    def versions(self) -> tuple[int, ...]:
        """Version of each fragment, in order."""
        versions = latest(self.commit_log)
        return tuple(versions[fragment] for fragment in sorted(versions))


class SyncerStore:
    """The syncer's files. `durable=False` does not flush: faster, not safe in a power cut.

    One process writes; a second writer of the same directory is refused. Reading changes nothing.
    """

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self._directory = directory
        self._durable = durable
        self._commit_log: File | None = None
        self._log_bytes: int | None = None
        """Valid length of the commit log; what is behind it is truncated before writing."""
        self._has_leftover = False
        """Whether something may be behind it, on disk or not."""
        self._is_unflushed = False
        """Whether `begin` has written everything, and only the name of the log is not flushed."""
        self._named: set[Path] = set()
        """Slots whose names were flushed to disk by this process."""

    def begin(self, specs_json: str, fragments: Mapping[int, Tensors]) -> None:
        """Commit the initial parameters as version 0 of every fragment.

        HasBegun if the directory already holds a training. After another OSError nothing has begun
        for this process; try again with the same parameters.
        """
        if self._is_unflushed:
            flush_folder(self._directory)
            self._is_unflushed = False
            return
        make_folder(self._directory, durable=self._durable)
        path = self._directory / _COMMIT_LOG
        if path.exists():
            raise HasBegun(
                f"{path} belongs to a training that has begun: go on with it, or choose another "
                "directory"
            )
        with self._appearing(_SPECS) as specs:
            specs.append(specs_json.encode())
        for index, tensors in fragments.items():
            self._write_slot(index, 0, tensors)
        lines = [CommitRecord(round=0, fragment=index, version=0, begun=0) for index in fragments]
        try:
            with self._appearing(_COMMIT_LOG) as commit_log:
                commit_log.append(b"".join(line.to_bytes() for line in lines))
        except OSError:
            self._is_unflushed = path.exists()
            raise

    def save_round(self, line: CommitRecord, tensors: Tensors) -> None:
        """Commit one merge durably.

        After an OSError (such as a full disk) the state before the merge is still valid.
        """
        commit_log = self._commit_log or self._open_log()
        self._cut_leftover(commit_log)  # first: a whole line there names the slot written next
        self._write_slot(line.fragment, line.version, tensors)
        self._has_leftover = True
        try:
            for piece in (line.to_bytes()[:-1], b"\n"):
                commit_log.append(piece)
                self._flush(commit_log)
        except OSError:
            with suppress(OSError):  # refused as well: done before the next merge is written
                self._cut_leftover(commit_log)
            raise
        self._log_bytes, self._has_leftover = commit_log.size, False

    def load(self) -> StoredState | None:
        """Committed state; None if the directory holds no training. CorruptState names what is
        damaged.
        """
        path = self._directory / _COMMIT_LOG
        if not path.exists():
            return None
        if self._durable:
            flush_all(self._directory)
        lines, size_bytes = read_commit_log(path)
        if not lines:
            raise CorruptState(f"{path} has no whole line")
        fragments = {index: self._read_slot(index, at) for index, at in latest(lines).items()}
        if self._commit_log is None:
            self._log_bytes = size_bytes
        specs_json = (self._directory / _SPECS).read_text()
        return StoredState(specs_json=specs_json, commit_log=lines, fragments=fragments)

    def reserve(self, numbers: Reserved) -> None:
        """Write durably up to which numbers may be assigned."""
        make_folder(self._directory, durable=self._durable)
        with self._appearing(_RESERVED) as file:
            file.append(encode(asdict(numbers)).encode())

    def reserved(self) -> Reserved:
        """Numbers that may have been assigned; CorruptState if the file is unreadable."""
        path = self._directory / _RESERVED
        if not path.exists():
            return Reserved()
        try:
            return Reserved(**json.loads(path.read_bytes()))
        except (TypeError, ValueError) as error:
            raise CorruptState(f"{path} is damaged: {error}") from error

    def close(self) -> None:
        """Release the lock, so that another process can write."""
        if self._commit_log is not None:
            self._commit_log.close()
            self._commit_log = None

    # ------------------------------------------------------------ inside

    def _open_log(self) -> File:
        """Open the commit log for appending: lock it, and see whether all of it is valid."""
        if self._log_bytes is None and self.load() is None:
            raise FileNotFoundError(f"no training has begun in {self._directory}: call begin first")
        commit_log = File(self._directory / _COMMIT_LOG, is_new=False)
        try:
            fcntl.flock(commit_log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            commit_log.close()
            raise BlockingIOError(
                error.errno,
                f"another process writes to {self._directory}: stop it or use another directory",
            ) from error
        behind = (self._directory / _COMMIT_LOG).read_bytes()[self._log_bytes :]
        if b"\n" in behind:
            commit_log.close()
            raise CorruptState(
                f"{self._directory} was written by another process after it was read: start again"
            )
        self._has_leftover = bool(behind)
        self._commit_log = commit_log
        return commit_log

    def _cut_leftover(self, commit_log: File) -> None:
        """Truncate what is behind the last valid line, also on disk. OSError: it may still be
        there.
        """
        if self._has_leftover:
            commit_log.cut(self._log_bytes or 0)
            self._flush(commit_log)
            self._has_leftover = False

    def _flush(self, file: File) -> None:
        if self._durable:
            file.flush()

    def _appearing(self, name: str) -> AbstractContextManager[File]:
        return atomic_write(self._directory / name, durable=self._durable)

    def _slot(self, index: int, version: int) -> Path:
        return self._directory / f"fragment-{index}.{_SLOTS[version % len(_SLOTS)]}"

    def _write_slot(self, index: int, version: int, tensors: Tensors) -> None:
        if list(tensors.theta) != list(tensors.momentum):
            raise ValueError("parameters and momentum of a fragment name the same tensors")
        path = self._slot(index, version)
        head: dict[str, Json] = {
            "fragment": index,
            "version": version,
            "tensors": [[name, list(array.shape)] for name, array in tensors.theta.items()],
        }
        arrays = [*tensors.theta.values(), *tensors.momentum.values()]
        with closing(File(path, is_new=True)) as file:
            write_checksummed(file, head, [_little(array) for array in arrays])
            self._flush(file)
        if self._durable and path not in self._named:
            flush_folder(self._directory)
            self._named.add(path)

    def _read_slot(self, index: int, version: int) -> Tensors:
        path = self._slot(index, version)
        encoded, body = read_checksummed(path)
        head = json.loads(encoded)
        if (head["fragment"], head["version"]) != (index, version):
            raise CorruptState(
                f"{path} holds version {head['version']} of fragment {head['fragment']}, not "
                f"version {version} of fragment {index}"
            )
        shapes = {str(name): tuple(shape) for name, shape in head["tensors"]}
        flat = np.frombuffer(body, "<f4").astype(np.float32)
        theta, momentum = np.split(flat, 2)
        return Tensors(theta=_by_name(theta, shapes), momentum=_by_name(momentum, shapes))


def _by_name(flat: FloatArray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, FloatArray]:
    """Views of the tensors that are concatenated in `flat`."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    pieces = np.split(flat, ends)
    return {
        name: piece.reshape(shape)
        for (name, shape), piece in zip(shapes.items(), pieces, strict=False)
    }


def _little(array: FloatArray) -> memoryview:
    return np.ascontiguousarray(array, "<f4").reshape(-1).view(np.uint8).data
