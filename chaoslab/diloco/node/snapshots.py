"""Snapshots of the global parameters on disk: written by the syncer, read by the evaluator.

    <directory>/<committed tokens, 15 digits>.npz
        tensor:<name>       float32, one entry for each tensor
        round               int64 []
        committed_tokens    int64 []

A snapshot is written atomically. A second one with the same number of committed tokens replaces the
first. Needs numpy only, so the syncer never imports JAX.
"""

import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.node.files import atomic_write, make_folder

_TENSOR = "tensor:"


class SnapshotError(ValueError):
    """A snapshot that cannot be written or read; the message names the file or the tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Global parameters that contain `committed_tokens` tokens of training.

    `tensors`: float32 by name. `round`: number of the last merged round.
    """

    tensors: Mapping[str, FloatArray]
    round: int
    committed_tokens: int


def write_snapshot(
    directory: Path,
    *,
    tensors: Mapping[str, FloatArray],
    round: int,  # noqa: A002 - a term of the protocol; the builtin is not used here
    committed_tokens: int,
) -> Path:
    """Write one snapshot durably; return its path. SnapshotError if a tensor is not float32."""
    for name, array in tensors.items():
        if array.dtype != np.float32:
            raise SnapshotError(f"tensor {name!r}: must be float32, got {array.dtype}")
    make_folder(directory, durable=True)
    path = directory / f"{committed_tokens:015d}.npz"
    entries = {f"{_TENSOR}{name}": array for name, array in tensors.items()}
    with atomic_write(path, durable=True) as file, os.fdopen(os.dup(file.fileno()), "wb") as writer:
        np.savez(
            writer,
            allow_pickle=False,
            round=np.int64(round),
            committed_tokens=np.int64(committed_tokens),
            **entries,
        )
    return path


class SnapshotSchedule:
    """Times of snapshots: `every` committed tokens; or, in a training of unknown length, `kept` to
    `2 * kept`, evenly spread; or none.

        ················   one for each merge, until there are `2 * kept`
        · · · · · · · ·    then every second one is removed, and the distance doubles
    """

    def __init__(self, directory: Path, *, every: int | None, kept: int | None) -> None:
        """Continues with the snapshots that an earlier process left in the directory."""
        self.directory, self._every, self._kept = directory, every, kept
        self._distance_tokens = 0.0
        self._next_tokens = 0.0 if every or kept else math.inf
        there = _snapshot_files(directory)
        if kept and not every and there:
            newest_tokens = int(there[-1].stem)
            self._distance_tokens = newest_tokens / len(there) if len(there) >= kept else 0.0
            self._next_tokens = newest_tokens + self._distance_tokens

    def is_due(self, committed_tokens: float) -> bool:
        """Whether a snapshot is due at this number of committed tokens."""
        return committed_tokens >= self._next_tokens

    def written(self, committed_tokens: float) -> None:
        """Record that one was written; remove every second one if there are too many. OSError."""
        if self._every:
            self._next_tokens = (committed_tokens // self._every + 1) * self._every
        if self._every or not self._kept:
            return
        there = _snapshot_files(self.directory)
        if len(there) >= 2 * self._kept:
            for path in there[1:-1:2]:
                path.unlink()
            self._distance_tokens = committed_tokens / self._kept
        self._next_tokens = committed_tokens + self._distance_tokens


def snapshot_paths(directory: Path) -> list[Path]:
    """Snapshot files in order of committed tokens. SnapshotError if there are none."""
    paths = _snapshot_files(directory)
    if not paths:
        raise SnapshotError(f"{directory}: must hold snapshots (<committed tokens>.npz), got none")
    return paths


def read_snapshot(path: Path) -> Snapshot:
    """Read one file. SnapshotError if it is truncated or of another format."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as entries:
            return Snapshot(
                tensors={
                    name.removeprefix(_TENSOR): entries[name]
                    for name in entries.files
                    if name.startswith(_TENSOR)
                },
                round=int(entries["round"]),
                committed_tokens=int(entries["committed_tokens"]),
            )
    except (KeyError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise SnapshotError(f"{path}: not a complete snapshot: {error}") from error


def _snapshot_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.npz") if path.stem.isdecimal())
