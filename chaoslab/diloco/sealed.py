r"""Files that prove they are whole: a seal, a head in JSON, then bytes.

    chaoslab <64 hex digits of BLAKE2b over all that follows>\n
    {"version": 7, "tensors": […]}\n
    <body>

Standard library only. Whoever damages a byte anywhere, the head included, breaks the seal.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from chaoslab.events import Json, encode

_MARK = b"chaoslab "
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_MARK) + 2 * _DIGEST_BYTES + 1


class CorruptState(ValueError):
    """A file that must be whole is damaged; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What a whole file says."""

    head: bytes
    """JSON."""
    body: memoryview


def write_sealed(
    path: Path, head: Mapping[str, Json], body: Sequence[memoryview | bytes], *, durable: bool
) -> None:
    """Write over `path`; with `durable`, return when the disk has it. Not atomic by itself."""
    first = encode(head).encode() + b"\n"
    seal = blake2b(first, digest_size=_DIGEST_BYTES)
    for piece in body:
        seal.update(piece)
    with path.open("wb") as file:
        file.write(_MARK + seal.hexdigest().encode() + b"\n" + first)
        for piece in body:
            file.write(piece)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def read_sealed(path: Path) -> Sealed:
    """Read a file back; CorruptState if it is missing, cut off, longer or altered."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorruptState(f"{path} cannot be read: {error.strerror}") from error
    seal, rest = content[:_SEAL_BYTES], memoryview(content)[_SEAL_BYTES:]
    found = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
    if seal != _MARK + found.encode() + b"\n":
        raise CorruptState(f"{path} is damaged: its bytes do not fit the seal in its first line")
    end = content.index(b"\n", _SEAL_BYTES)
    return Sealed(head=content[_SEAL_BYTES:end], body=rest[end + 1 - _SEAL_BYTES :])


@contextmanager
def appearing_whole(path: Path, *, durable: bool) -> Iterator[Path]:
    """Write to the path this gives; the file appears under its name at the end, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if durable:
        flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the names of the files that were made in a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
