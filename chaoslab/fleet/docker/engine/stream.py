"""A container's standard streams over one connection to its engine.

    engine ── frames: 1 stdout | 2 stderr, length, bytes ──► read
           ◄─ raw bytes for standard input ──────────────── write

Knows the bytes and nothing of Docker's SDK: what it is given is a socket, or what wraps one.
"""

import struct
from contextlib import suppress
from typing import Final, Protocol, cast

STDERR: Final = 2
_HEADER = struct.Struct(">BxxxL")
_PIECE_BYTES: Final = 64 << 10


class _Socket(Protocol):
    """Common interface of TCP, Unix, TLS and SSH connections."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> object: ...
    def settimeout(self, value: float | None, /) -> object: ...
    def close(self) -> object: ...


class Stream:
    """Read from one thread, written to and closed from another."""

    def __init__(self, attached: object) -> None:
        """`attached` is what the SDK returns: a socket, or a raw file around one."""
        self._kept = attached
        self._socket = cast("_Socket", getattr(attached, "_sock", attached))
        self._socket.settimeout(None)
        self._left = 0
        self._kind = 0

    def read(self) -> tuple[int, bytes] | None:
        """Some bytes and the stream they belong to; None at the end of all of them."""
        while not self._left:
            header = self._exactly(_HEADER.size)
            if len(header) < _HEADER.size:
                return None
            self._kind, self._left = _HEADER.unpack(header)
        piece = self._some(min(self._left, _PIECE_BYTES))
        self._left -= len(piece)
        return (self._kind, piece) if piece else None

    def write(self, data: bytes) -> None:
        """Write to its standard input; OSError when it has ended."""
        self._socket.sendall(data)

    def close(self) -> None:
        """End its standard input, and the reader. May be called twice."""
        shutdown = getattr(self._socket, "shutdown", None)
        with suppress(OSError):
            if shutdown is not None:
                shutdown(2)
        for one in (self._socket, self._kept, getattr(self._kept, "_response", None)):
            if one is not None:
                with suppress(OSError, ValueError):
                    cast("_Socket", one).close()

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._some(size - len(found))
            if not piece:
                break
            found += piece
        return found

    def _some(self, size: int) -> bytes:
        try:
            return self._socket.recv(size)
        except (OSError, ValueError):  # closed under our hands
            return b""
