"""The syncer's end of mutual TLS: takes connections, checks certificates, hands the bytes to grpc.

    learner ══ TLS ══► TlsListener, one thread ── plaintext on loopback ──► grpc's own port
                         │ certificate ─► name                 known(peer) ◄── Hub
                         └─► TurnedAway: no certificate, another authority, expired, no TLS

grpc can do the handshake itself, but then says nowhere who failed and why, and a stranger holds a
connection for as long as it likes. Here each has `handshake_s`, and what was wrong with it is a
code. Whoever dials grpc's port directly is not `known`.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaoslab.diloco.wire.identity import Suspicion, TurnedAway
from chaoslab.diloco.wire.tls import Tls

_LOOPBACK = "127.0.0.1"
_READ_BYTES = 1 << 18
_HANDSHAKES_MAX = 64
"""Connections at once that have not shown a certificate."""
_BACKLOG = 512
_NO_ROOM_S = 0.1
_NOT_YET_VALID, _HAS_EXPIRED = 9, 10
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL."""
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Who is at the other end of a connection: the name in its certificate, and its address."""

    name: str
    peer: str


class TlsListener:
    """Started once, ended by `close`. `known` may be asked from any thread."""

    def __init__(
        self, address: str, tls: Tls, turned_away: TurnedAway, *, handshake_s: float
    ) -> None:
        """OSError if the address is taken or a file cannot be used; ValueError if one is no PEM."""
        tls.read()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_verify_locations(tls.ca)
        self._context.load_cert_chain(tls.certificate, tls.key)
        self._context.set_alpn_protocols(["h2"])
        self._turned_away = turned_away
        self._handshake_s = handshake_s
        self._handshakes = 0
        self._shown: dict[int, Shown] = {}
        """By the port from which the bytes go on to grpc."""
        self._socket = _listening(address)
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()

    def start(self, inner_port: int) -> None:
        """Serve; what learners say goes on to this port of the machine itself."""
        self._inner_port = inner_port
        threading.Thread(target=self._run, name="tls", daemon=True).start()

    def known(self, peer: str) -> Shown | None:
        """Who speaks from this address of grpc's; None for a stranger on this machine."""
        return self._shown.get(int(peer.rpartition(":")[2] or 0))

    def close(self) -> None:
        """Accept no more, and end what is open."""
        with contextlib.suppress(RuntimeError):  # it was never started, or has ended
            self._loop.call_soon_threadsafe(self._serving.cancel)

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        self._serving = self._loop.create_task(self._serve())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._serving)
        finally:
            self._socket.close()
            self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()
        try:
            while True:
                try:
                    accepted, _ = await self._loop.sock_accept(self._socket)
                except OSError:  # no file descriptor; whoever shows nothing soon gives one back
                    await asyncio.sleep(_NO_ROOM_S)
                    continue
                task = self._loop.create_task(self._connection(accepted))
                connections.add(task)
                task.add_done_callback(connections.discard)
        finally:
            for task in connections:
                task.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, accepted: socket.socket) -> None:
        """One connection, from its handshake to its end."""
        try:
            host, port, *_ = accepted.getpeername()
        except OSError:  # it is gone already
            accepted.close()
            return
        reader = asyncio.StreamReader(_READ_BYTES)
        shaken = await self._shake_hands(accepted, asyncio.StreamReaderProtocol(reader))
        if isinstance(shaken, Suspicion):
            self._turned_away.note(shaken, f"{host}:{port}")
            accepted.close()
            return
        transport, protocol = shaken
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        name = name_in(transport.get_extra_info("peercert"))
        with contextlib.suppress(OSError):  # either end broke it off, which both of them see
            await self._relay(reader, writer, Shown(name=name, peer=f"{host}:{port}"))

    async def _shake_hands(
        self, accepted: socket.socket, protocol: asyncio.StreamReaderProtocol
    ) -> tuple[asyncio.Transport, asyncio.StreamReaderProtocol] | Suspicion:
        """An open connection to somebody with a certificate of this authority, or why not."""
        if self._handshakes >= _HANDSHAKES_MAX:
            return Suspicion.TOO_MANY
        self._handshakes += 1
        try:
            return await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._context,
                ssl_handshake_timeout=self._handshake_s,
            )  # fmt: skip
        except ssl.SSLCertVerificationError as error:
            is_time = error.verify_code in (_NOT_YET_VALID, _HAS_EXPIRED)
            return Suspicion.EXPIRED_CERTIFICATE if is_time else Suspicion.UNTRUSTED_CERTIFICATE
        except ssl.SSLError as error:
            is_bare = error.reason == _NO_CERTIFICATE
            return Suspicion.NO_CERTIFICATE if is_bare else Suspicion.NO_TLS
        except OSError:
            return Suspicion.NO_TLS
        finally:
            self._handshakes -= 1

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, shown: Shown
    ) -> None:
        """Carry bytes both ways until either end is done; it is `known` meanwhile."""
        with contextlib.closing(writer):
            inner_reader, inner_writer = await asyncio.open_connection(
                _LOOPBACK, self._inner_port, limit=_READ_BYTES
            )
            own_port = int(inner_writer.get_extra_info("sockname")[1])
            self._shown[own_port] = shown
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_carry(reader, inner_writer))
                    both.create_task(_carry(inner_reader, writer))
            except* OSError:
                pass  # as above
            finally:
                del self._shown[own_port]
                inner_writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """One direction; when it ends, so does the other."""
    with contextlib.closing(sink):
        while data := await source.read(_READ_BYTES):
            sink.write(data)
            await sink.drain()


def name_in(certificate: Mapping[str, Any]) -> str:
    """Whose it is: the first DNS name in it (subject alternative names), else its common name."""
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"]
    subject = [value for part in certificate["subject"] for key, value in part
               if key == "commonName"]  # fmt: skip
    return next(iter((*names, *subject)), "")


def _listening(address: str) -> socket.socket:
    """A socket that listens there; OSError if it cannot."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:"):
        raise ValueError(f"{address} stays on this machine and takes no TLS; use tokens")
    family, _, _, _, where = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.create_server(where[:2], family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return listening
