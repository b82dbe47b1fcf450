"""Framing: payloads cut into chunks and reassembled, as `wire.proto` describes it.

    message + bytes ── payload_frames ──► header, chunk, chunk, … ══► Assembler ──► message, view

A frame is one serialised FromLearner or ToLearner. Chunks are encoded and decoded by hand, because
protobuf would copy each of them twice more. What is written is valid protobuf; a chunk that another
writer laid out differently is decoded by protobuf.

Each chunk has a checksum, computed while the chunk is in the processor's cache. It detects software
errors (a faulty relay, a frame cut at the wrong place); TCP and TLS protect the line. For 64 MiB it
takes 2 ms here; CRC-32 alone takes 9 ms, BLAKE2b 47 ms, and moving the bytes through grpc 20 ms. No
sockets, no threads.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes, M

CHUNK_BYTES = 2 << 20
"""Most payload bytes in one frame: with less, what grpc spends on each frame adds up; with twice as
many, frames outgrow the processor's cache (`benchmarks/wire.py`)."""
BULK_CHUNK_BYTES = 1 << 18
"""The same of a payload that lets others pass: they wait for no more than one of its frames."""
_CHUNKS = 4
"""Least number of chunks of a payload (in whole pages): the receiver measures the rate of the link
from those after the first, and messages may be sent between them."""
_PAGE_BYTES = 1 << 12
FRAME_BYTES_MAX = CHUNK_BYTES + (1 << 16)
"""Largest frame; also the limit for messages without payload."""

Message: TypeAlias = pb.FromLearner | pb.ToLearner


class GarbledFrame(ValueError):
    """A frame that violates `wire.proto`; the message says how."""


def frame_of(message: Message) -> bytes:
    """Serialise a message without payload into one frame; ValueError if it is too large."""
    frame = message.SerializeToString()
    if len(frame) > FRAME_BYTES_MAX:
        raise ValueError(
            f"{message.WhichOneof('body')}: must be at most {FRAME_BYTES_MAX} bytes in one frame, "
            f"got {len(frame)}; send large content as a payload"
        )
    return frame


def is_bulk(message: Message) -> bool:
    """Whether other payloads of a learner may pass this one on its way."""
    return str(message.WhichOneof("body")) == "checkpoint"


def payload_frames(message: M, payload: Bytes) -> Iterator[bytes]:
    """The header and the chunks of a payload, each made when the iterator reaches it.

    `message` must have a body with a payload field; it is not changed.
    """
    view = memoryview(payload).cast("B")
    header = type(message)()
    header.CopyFrom(message)
    getattr(header, str(header.WhichOneof("body"))).payload.bytes = len(view)
    yield frame_of(header)
    pages = max(1, -(-len(view) // (_CHUNKS * _PAGE_BYTES)))
    size = min(BULK_CHUNK_BYTES if is_bulk(message) else CHUNK_BYTES, pages * _PAGE_BYTES)
    for offset in range(0, len(view), size):
        piece = view[offset : offset + size]
        yield b"".join((_chunk_head(offset, checksum(piece), len(piece)), piece))


class Assembler(Generic[M]):
    """Reassembles one direction of a stream. For one thread."""

    def __init__(self, parse: Callable[[bytes], M], payload_bytes_max: int) -> None:
        self._parse: Callable[[bytes], M] = parse
        self.payload_bytes_max = payload_bytes_max
        """Largest payload accepted, in bytes; may be changed from another thread."""
        self._header: M | None = None
        """Message whose payload is arriving; None without one."""
        self._buffer = np.empty(0, np.uint8)
        self._filled = 0
        self._passed: tuple[M, np.ndarray[Any, Any], int] | None = None
        """The same of a payload that the present one passes."""

    @property
    def underway(self) -> int | None:
        """Bytes received of an incomplete payload; None if no payload is arriving."""
        return None if self._header is None else self._filled

    def take(self, frame: bytes) -> tuple[M, memoryview | None] | None:
        """The message that this frame completes, if any, with its payload (read-only) or None.

        Raises GarbledFrame; the assembler must not be used afterwards.
        """
        piece = _split_chunk(frame)
        if piece is not None:
            return self._chunk(*piece)
        try:
            message = self._parse(frame)
        except DecodeError as error:
            raise GarbledFrame(f"{len(frame)} bytes that are not a message: {error}") from error
        body = message.WhichOneof("body")
        if body is None:
            raise GarbledFrame("a message without a body")
        if body == "chunk":
            chunk = message.chunk
            return self._chunk(chunk.offset, chunk.checksum, memoryview(chunk.data))
        content = getattr(message, body)
        if "payload" not in content.DESCRIPTOR.fields_by_name or not content.HasField("payload"):
            return message, None
        return self._begin(message, content.payload.bytes)

    def _begin(self, message: M, size: int) -> tuple[M, memoryview] | None:
        header = self._header
        if header is not None and (not is_bulk(header) or is_bulk(message)):
            raise GarbledFrame(
                f"a payload began after {self._filled} of {len(self._buffer)} bytes of the last"
            )
        if size > self.payload_bytes_max:
            raise GarbledFrame(
                f"payload: must be at most {self.payload_bytes_max} bytes, got {size}"
            )
        if size == 0:
            return message, memoryview(b"")
        if header is not None:
            self._passed = header, self._buffer, self._filled
        try:
            self._buffer = np.empty(size, np.uint8)
        except MemoryError as error:
            raise GarbledFrame(f"no memory for a payload of {size} bytes") from error
        self._header, self._filled = message, 0
        return None

    def _chunk(self, offset: int, expected: int, data: memoryview) -> tuple[M, memoryview] | None:
        header, end = self._header, offset + len(data)
        if header is None:
            raise GarbledFrame("a chunk that belongs to no payload")
        if offset != self._filled or not data or end > len(self._buffer):
            raise GarbledFrame(
                f"a chunk of bytes {offset} to {end} where {self._filled} of {len(self._buffer)} "
                "had arrived"
            )
        place = self._buffer[offset:end]
        place[:] = np.frombuffer(data, np.uint8)
        if (found := checksum(place.data)) != expected:  # `place` is aligned: faster than `data`
            raise GarbledFrame(
                f"checksum of bytes {offset} to {end}: must be {expected:08x}, got {found:08x}"
            )
        self._filled = end
        if end < len(self._buffer):
            return None
        payload, self._header, self._buffer = self._buffer.data.toreadonly(), None, _NOTHING
        if self._passed is not None:
            (self._header, self._buffer, self._filled), self._passed = self._passed, None
        return header, payload


# ---------------------------------------------------------------- checksums

_NOTHING = np.empty(0, np.uint8)
_ROW_BYTES = 4096
_ROW = np.dtype(("<u8", _ROW_BYTES // 8))


def checksum(data: Bytes) -> int:
    """CRC-32 of the sum of the data's rows, as `wire.proto` defines it."""
    size = len(data)
    whole = size - size % _ROW_BYTES
    total = np.add.reduce(np.frombuffer(data, _ROW, whole // _ROW_BYTES), axis=0)
    if whole < size:
        last = bytes(memoryview(data)[whole:]).ljust(_ROW_BYTES, b"\0")
        total += np.frombuffer(last, _ROW)[0]
    return zlib.crc32(total)


# ---------------------------------------------------------------- a chunk, byte by byte

_CHUNK_TAG = pb.FromLearner.CHUNK_FIELD_NUMBER << 3 | 2
_OFFSET_TAG = pb.Chunk.OFFSET_FIELD_NUMBER << 3
_CHECKSUM_TAG = pb.Chunk.CHECKSUM_FIELD_NUMBER << 3 | 5
_DATA_TAG = pb.Chunk.DATA_FIELD_NUMBER << 3 | 2
_VARINT_BYTES_MAX = 10


def _chunk_head(offset: int, checked: int, size: int) -> bytes:
    """The bytes of a chunk's frame before its data."""
    inner = b"%c%b%c%b%c%b" % (
        _OFFSET_TAG, _varint(offset),
        _CHECKSUM_TAG, checked.to_bytes(4, "little"),
        _DATA_TAG, _varint(size),
    )  # fmt: skip
    return b"%c%b%b" % (_CHUNK_TAG, _varint(len(inner) + size), inner)


def _split_chunk(frame: bytes) -> tuple[int, int, memoryview] | None:
    """Offset, checksum and data of a frame laid out as by `_chunk_head`; None for other frames."""
    if not frame or frame[0] != _CHUNK_TAG:
        return None
    try:
        size, at = _read_varint(frame, 1)
        if at + size != len(frame) or frame[at] != _OFFSET_TAG:
            return None
        offset, at = _read_varint(frame, at + 1)
        if frame[at] != _CHECKSUM_TAG or frame[at + 5] != _DATA_TAG:
            return None
        checked = int.from_bytes(frame[at + 1 : at + 5], "little")
        size, at = _read_varint(frame, at + 6)
    except IndexError:
        return None
    return (offset, checked, memoryview(frame)[at:]) if at + size == len(frame) else None


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(frame: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and the index after it; IndexError if it does not end."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = frame[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise IndexError("a varint of more than ten bytes")
