"""Snapshots of the global parameters on disk: written by the syncer, read by the evaluator.

    <directory>/<committed tokens, 15 digits>.npz
        tensor:<name>       float32, one entry for each tensor
        round               int64 []
        committed_tokens    int64 []

A snapshot is written atomically. A second one with the same number of committed tokens replaces the
first. Needs numpy only, so the syncer never imports JAX.
"""

import os
import zipfile
from collections.abc import Iterable, Mapping
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
    path = _path(directory, committed_tokens)
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


class SnapshotFiles:
    """Snapshots of a directory, as `snapshot_schedule` asks for them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def tokens(self) -> list[int]:
        """See `Snapshots.tokens`."""
        return [int(path.stem) for path in _snapshot_files(self._directory)]

    def remove(self, tokens: Iterable[int]) -> None:
        """See `Snapshots.remove`."""
        for one in tokens:
            _path(self._directory, one).unlink()


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


def _path(directory: Path, committed_tokens: int) -> Path:
    return directory / f"{committed_tokens:015d}.npz"
