r"""Files with a checksum: a checksum line, a header in JSON, then bytes.

    chaoslab xxh3 <32 hex digits of XXH3-128 over all that follows>\n
    {"version": 7, "tensors": […]}\n
    <body>

A change of any byte, the header included, is detected by `read_checksummed`. The checksum runs at
the speed of memory and guards against accidents, not against a program that can write the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from xxhash import xxh3_128

from chaoslab.core.events import Json, encode
from chaoslab.diloco.node.files import File

_MARK = b"chaoslab xxh3 "
_DIGEST_BYTES = 16
_SEAL_BYTES = len(_MARK) + 2 * _DIGEST_BYTES + 1


class CorruptState(ValueError):
    """A file that is damaged or missing; the message names it."""


def write_checksummed(
    file: File, head: Mapping[str, Json], body: Sequence[memoryview | bytes]
) -> None:
    """Write the content into a new file; nothing is flushed."""
    first = encode(head).encode() + b"\n"
    seal = xxh3_128(first)
    for piece in body:
        seal.update(piece)
    file.append(_MARK + seal.hexdigest().encode() + b"\n" + first)
    for piece in body:
        file.append(piece)


def read_checksummed(path: Path) -> tuple[bytes, memoryview]:
    """Header (one JSON object) and body of a file; CorruptState if it is missing, truncated, longer
    or altered.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorruptState(f"{path}: cannot be read: {error.strerror}") from error
    return checked(content, path)


def checked(content: bytes, path: Path) -> tuple[bytes, memoryview]:
    """As `read_checksummed`, of a file that was read already; `path` is for the message."""
    seal, rest = content[:_SEAL_BYTES], memoryview(content)[_SEAL_BYTES:]
    checksum = xxh3_128()
    checksum.update(rest)  # unlike xxh3_128(rest), without the interpreter lock
    found = checksum.hexdigest()
    if seal != _MARK + found.encode() + b"\n":
        raise CorruptState(f"{path}: damaged, its content does not match its checksum")
    end = content.index(b"\n", _SEAL_BYTES)
    return content[_SEAL_BYTES:end], rest[end + 1 - _SEAL_BYTES :]
