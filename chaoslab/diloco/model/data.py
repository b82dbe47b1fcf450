"""Training text as bytes: its source, its split into shards and a held-out part, its batches.

    stdlib | file | folder | glob ─► one file of bytes (memory-mapped)
    bytes ─► blocks of 32 windows ─┬─ every 20th ─► held out: evaluation only
                                   └─ the rest, dealt out ─► shard 0, shard 1, ...
    shard ─► windows in a new seeded order each epoch ─► batches, from any position at once

A window is `sequence + 1` bytes: inputs and, shifted by one, targets. The held-out blocks depend
only on the data and the sequence length, so all runs over the same data are evaluated on the same
text. Nothing here depends on a model or a device.
"""

import glob
import hashlib
import os
import platform
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
Indices: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

WINDOWS_PER_BLOCK = 32
HELD_OUT_EVERY = 20
_HOLD_OUT_SEED = 20
_ROUNDS = 6  # of the Feistel network; 4 leave small ranges visibly ordered
_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}


class DataError(ValueError):
    """Unusable text; the message says what was sought or how many bytes are needed."""


class Blocks(NamedTuple):
    """Offset of every block's first byte. Blocks do not overlap; a partial last one is unused."""

    training: Indices  # i64 [n_training], in seeded order
    held_out: Indices  # i64 [n_held_out], in seeded order


# ---------------------------------------------------------------- windows and their order


def batches(
    text: Bytes, *, sequence: int, batch: int, shard: tuple[int, int], seed: int, position: int
) -> Iterator[Bytes]:
    """Endless u8 [batch, sequence + 1] of `shard` (number, of how many), from batch `position` on.

    Each epoch contains every window once, in an order of its own.
    """
    number, shards = shard
    training = split(len(text), sequence).training
    if len(training) // shards * WINDOWS_PER_BLOCK < batch:
        needed = _bytes_needed(sequence, batch, shards)
        raise DataError(
            f"{len(text):,} bytes of text are too few: {shards} learners with batches of {batch} "
            f"windows of {sequence} bytes need at least {needed:,} bytes"
        )
    blocks = training[number::shards]
    windows = len(blocks) * WINDOWS_PER_BLOCK
    per_epoch = windows // batch
    while True:
        epoch, turn = divmod(position, per_epoch)
        order = np.arange(turn * batch, (turn + 1) * batch)
        chance = int.from_bytes(_digest(seed, number, epoch, size=8), "little")
        yield _read(text, blocks, shuffled(order, windows, chance), sequence)
        position += 1


def held_out(text: Bytes, *, sequence: int, windows: int) -> Bytes:
    """Held-out windows, u8 [n, sequence + 1], n <= windows; the same for every call."""
    blocks = split(len(text), sequence).held_out
    count = len(blocks) * WINDOWS_PER_BLOCK
    return _read(text, blocks, shuffled(np.arange(min(windows, count)), count, 0), sequence)


def split(length: int, sequence: int) -> Blocks:
    """Cut `length` bytes into blocks of 32 windows of `sequence` bytes; hold out every 20th."""
    size = WINDOWS_PER_BLOCK * sequence + 1
    count = length // size
    if count < 2:
        raise DataError(
            f"{length:,} bytes of text are too few: with a sequence of {sequence} bytes at least "
            f"{_bytes_needed(sequence, 1, 1):,} are needed"
        )
    starts = shuffled(np.arange(count), count, _HOLD_OUT_SEED) * size
    kept_back = max(1, count // HELD_OUT_EVERY)
    return Blocks(training=starts[kept_back:], held_out=starts[:kept_back])


def shuffled(index: Indices, count: int, seed: int) -> Indices:
    """Images of `index` under a seeded permutation of range(count), without building it.

    A Feistel network over the next power of four, applied again until the value is inside the range
    (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). `index`, `count`: up to 2**62.
    """
    half_bits = np.uint64(max(1, ((count - 1).bit_length() + 1) // 2))
    keys = np.frombuffer(_digest(seed, size=8 * _ROUNDS), "<u8")
    value = _feistel(index.astype(np.uint64), half_bits, keys)
    while (outside := value >= np.uint64(count)).any():
        value[outside] = _feistel(value[outside], half_bits, keys)
    return value.astype(np.int64)


def _feistel(value: Words, half_bits: np.uint64, keys: Words) -> Words:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = value >> half_bits, value & mask
    for key in keys:
        left, right = right, left ^ (_mixed(right + key) & mask)
    return left << half_bits | right


def _mixed(value: Words) -> Words:
    """Finalizer of splitmix64 (Steele, Lea, Flood 2014)."""
    value = (value ^ value >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return value ^ value >> np.uint64(31)


def _digest(*parts: int, size: int) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=size).digest()


def _read(text: Bytes, blocks: Indices, windows: Indices, sequence: int) -> Bytes:
    block, place = np.divmod(windows, WINDOWS_PER_BLOCK)
    starts = blocks[block] + place * sequence
    return np.asarray(text[starts[:, None] + np.arange(sequence + 1)[None, :]])


def _bytes_needed(sequence: int, batch: int, shards: int) -> int:
    blocks_per_shard = -(-batch // WINDOWS_PER_BLOCK)
    training = blocks_per_shard * shards
    held_back = next(n for n in range(1, training + 2) if max(1, (training + n) // 20) == n)
    return (training + held_back) * (WINDOWS_PER_BLOCK * sequence + 1)


# ---------------------------------------------------------------- source of the bytes


def open_text(source: str) -> Bytes:
    """Bytes of `source`, memory-mapped, u8 [n].

    `stdlib` is the source of this Python's standard library, without tests and installed packages;
    anything else is a file, a folder (all its files except hidden ones) or a glob pattern. Several
    files are concatenated under `$CHAOSLAB_CACHE/data` (default ~/.cache/chaoslab/data). DataError
    if there are no bytes.
    """
    if Path(source).is_file():
        return _mapped(Path(source), source)
    label, files = _listed(source)
    if not files:
        raise DataError(
            f"no file matches data {source!r} (seen from {Path.cwd()}); write stdlib, or a file, "
            "a folder, or a glob pattern such as 'books/**/*.txt'"
        )
    return _mapped(_joined(label, files), source)


def _mapped(path: Path, source: str) -> Bytes:
    if path.stat().st_size == 0:
        raise DataError(f"data {source!r} has no bytes in it")
    return np.memmap(path, dtype=np.uint8, mode="r")


def _listed(source: str) -> tuple[str, list[str]]:
    """A label for the files, and their absolute paths in a fixed order: folder by folder."""
    if source == "stdlib":
        root = Path(sysconfig.get_path("stdlib"))
        label, files = f"stdlib-{platform.python_version()}", _walked(root, ".py")
    elif (root := Path(source)).is_dir():
        label, files = "folder", _walked(root, "")
    else:
        found = (Path(name) for name in glob.glob(source, recursive=True))
        label, files = "glob", (str(path.absolute()) for path in found if path.is_file())
    return label, sorted(files, key=lambda path: path.split(os.sep))


def _walked(root: Path, suffix: str) -> Iterator[str]:
    """Files below `root`, as text: a `Path` for each makes the listing two thirds longer."""
    skipped = _SKIPPED_FOLDERS if suffix else {"__pycache__"}
    for folder, subfolders, names in os.walk(root.absolute()):
        subfolders[:] = [name for name in subfolders if name not in skipped and name[0] != "."]
        for name in names:
            if name.endswith(suffix) and name[0] != ".":
                yield os.path.join(folder, name)


def _joined(label: str, files: Sequence[str]) -> Path:
    """One file with the bytes of all `files`, created once and named by listing and content.

    The listing (names, sizes, modification times) finds it again without reading the files.
    """
    folder = cache_folder() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    listing = hashlib.blake2b(digest_size=6)
    for path in files:
        status = os.stat(path)
        listing.update(repr((path, status.st_size, status.st_mtime_ns)).encode())
    stem = f"{label}-{listing.hexdigest()}"
    if made := sorted(folder.glob(f"{stem}-*.bin")):
        return made[0]
    content = hashlib.blake2b(digest_size=6)
    partial = folder / f".{stem}-{os.getpid()}.partial"
    with partial.open("wb") as joined:
        for path in files:
            body = Path(path).read_bytes() + b"\n"
            content.update(body)
            joined.write(body)
    whole = folder / f"{stem}-{content.hexdigest()}.bin"
    partial.replace(whole)
    return whole


def cache_folder() -> Path:
    """`$CHAOSLAB_CACHE`, or ~/.cache/chaoslab: files that can be deleted and recreated."""
    return Path(os.environ.get("CHAOSLAB_CACHE") or Path.home() / ".cache" / "chaoslab")
