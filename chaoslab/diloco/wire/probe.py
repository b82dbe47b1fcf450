"""Round trips of a learner's link, measured on a separate connection without payloads.

    connect to the syncer's address, as the stream does ─► HTTP/2 PING ══► its transport ══► ACK
                                                              └─ 4 times a second ─► Meter.probed

A ping on the stream waits behind its payloads: on a slow link it measures that queue. Here the
pings are HTTP/2 PING frames, for which no stream is opened and no authentication is needed. The
thread runs until the process ends; while the link is down it connects once a second.
"""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from chaoslab.diloco.wire.tls import Security, Tls

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = struct.Struct("!BHBBI")
"""Frame header: length (8 and 16 bits), type, flags, stream."""
_SETTINGS, _PING, _GOAWAY, _ACK = 4, 6, 7, 1
_FRAME_BYTES_MAX = 1 << 14
_DIAL_S = 5.0
_PAUSE_S = 1.0
_UNANSWERED_MAX = 64
"""Most unanswered pings, on a frozen link; late answers still count."""


class Probe:
    """Pings `address` (host:port) every `period_s`; calls `probed` with each round trip in s."""

    def __init__(
        self, address: str, probed: Callable[[float], None], *, tls: Security, period_s: float
    ) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._tls, self._probed, self._period_s = tls, probed, period_s
        self._sent_s: dict[bytes, float] = {}
        self._number = 0

    def start(self) -> None:
        """Start the thread, which ends with the process."""
        threading.Thread(target=self._run, name="probe", daemon=True).start()

    def _run(self) -> None:
        while True:
            with suppress(OSError, EOFError), closing(self._dial()) as connection:
                self._converse(connection)
            time.sleep(_PAUSE_S)

    def _dial(self) -> socket.socket:
        host = self._host.strip("[]")
        plain = socket.create_connection((host, int(self._port)), _DIAL_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not isinstance(self._tls, Tls):
            return plain
        context = ssl.create_default_context(cafile=str(self._tls.ca))
        context.load_cert_chain(self._tls.certificate, self._tls.key)
        context.set_alpn_protocols(["h2"])
        try:
            return context.wrap_socket(plain, server_hostname=self._tls.server_name or host)
        except OSError:
            plain.close()
            raise

    def _converse(self, connection: socket.socket) -> None:
        """Ping and read until the connection ends: OSError or EOFError."""
        self._sent_s.clear()
        connection.sendall(_PREFACE + _frame(_SETTINGS))
        received = bytearray()
        due_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            if now_s >= due_s:
                due_s = now_s + self._period_s
                self._ping(connection, now_s)
            connection.settimeout(max(0.001, due_s - now_s))
            with suppress(TimeoutError):
                received += _some(connection)
            while (frame := _next_frame(received)) is not None:
                self._take(connection, *frame)

    def _ping(self, connection: socket.socket, now_s: float) -> None:
        if len(self._sent_s) >= _UNANSWERED_MAX:
            return
        self._number += 1
        name = self._number.to_bytes(8, "big")
        self._sent_s[name] = now_s
        connection.settimeout(_DIAL_S)
        connection.sendall(_frame(_PING, payload=name))

    def _take(self, connection: socket.socket, kind: int, flags: int, payload: bytes) -> None:
        if kind == _PING and flags & _ACK:
            sent_s = self._sent_s.pop(payload, None)
            if sent_s is not None:
                self._probed(time.monotonic() - sent_s)
        elif kind in (_PING, _SETTINGS) and not flags & _ACK:
            answer = payload if kind == _PING else b""
            connection.settimeout(_DIAL_S)
            connection.sendall(_frame(kind, _ACK, answer))
        elif kind == _GOAWAY:
            raise EOFError("the peer closes the connection (GOAWAY)")


def _frame(kind: int, flags: int = 0, payload: bytes = b"") -> bytes:
    return _HEAD.pack(0, len(payload), kind, flags, 0) + payload


def _next_frame(received: bytearray) -> tuple[int, int, bytes] | None:
    """Remove the first whole frame: type, flags, payload; EOFError if it is too large."""
    if len(received) < _HEAD.size:
        return None
    high, low, kind, flags, _stream = _HEAD.unpack_from(received)
    size = (high << 16) + low
    if size > _FRAME_BYTES_MAX:
        raise EOFError("the peer does not speak HTTP/2")
    if len(received) < _HEAD.size + size:
        return None
    payload = bytes(received[_HEAD.size : _HEAD.size + size])
    del received[: _HEAD.size + size]
    return kind, flags, payload


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise EOFError("the peer closed the connection")
    return data
