r"""Files with a checksum: a checksum line, a header in JSON, then bytes.

    chaoslab <64 hex digits of BLAKE2b over all that follows>\n
    {"version": 7, "tensors": […]}\n
    <body>

Standard library only. A change of any byte, the header included, is detected by `read_checksummed`.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from chaoslab.core.events import Json, encode
from chaoslab.diloco.node.files import File

_MARK = b"chaoslab "
_DIGEST_BYTES = 32
_SEAL_BYTES = len(_MARK) + 2 * _DIGEST_BYTES + 1


class CorruptState(ValueError):
    """A file that is damaged or missing; the message names it."""


def write_checksummed(
    file: File, head: Mapping[str, Json], body: Sequence[memoryview | bytes]
) -> None:
    """Write the content into a new file; nothing is flushed."""
    first = encode(head).encode() + b"\n"
    seal = blake2b(first, digest_size=_DIGEST_BYTES)
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
    seal, rest = content[:_SEAL_BYTES], memoryview(content)[_SEAL_BYTES:]
    found = blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest()
    if seal != _MARK + found.encode() + b"\n":
        raise CorruptState(f"{path}: damaged, its content does not match its checksum")
    end = content.index(b"\n", _SEAL_BYTES)
    return content[_SEAL_BYTES:end], rest[end + 1 - _SEAL_BYTES :]
