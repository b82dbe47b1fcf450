"""The syncer's TLS endpoint: verifies certificates, relays the bytes to grpc on loopback.

    learner ══ TLS ══► TlsListener, one thread ── plaintext on loopback ──► grpc's own port
                         │ certificate ─► name              identify(peer) ◄── Hub
                         └─► Refusals: no certificate, another authority, expired, no TLS

grpc can do the handshake itself, but does not report which peer failed and why, and sets no limit
to its duration. Here each handshake has `handshake_s` seconds, and a failure has a reason code. A
connection made directly to grpc's port is not identified and therefore refused.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any

from chaoslab.diloco.wire.identity import RefusalReason, Refusals
from chaoslab.diloco.wire.tls import Tls

_LOOPBACK = "127.0.0.1"
_READ_BYTES = 1 << 18
_HANDSHAKES_MAX = 64
"""Most handshakes in progress."""
_BACKLOG = 512
_NO_ROOM_S = 0.1
_NOT_YET_VALID, _HAS_EXPIRED = 9, 10
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL."""
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_NOT_TRUSTED = (
    "_ALERT_UNKNOWN_CA",
    "_ALERT_BAD_CERTIFICATE",
    "_ALERT_CERTIFICATE_EXPIRED",
    "_ALERT_CERTIFICATE_UNKNOWN",
    "_ALERT_UNSUPPORTED_CERTIFICATE",
)
"""Ends of OpenSSL's reasons when the peer does not accept the certificate of this end."""


class TlsListener:
    """TLS endpoint: `start` once, then `close`. `identify` is thread-safe."""

    def __init__(self, address: str, tls: Tls, refusals: Refusals, *, handshake_s: float) -> None:
        """OSError if the address is taken or a file is unusable, ValueError if a file is no PEM."""
        tls.read()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_verify_locations(tls.ca)
        self._context.load_cert_chain(tls.certificate, tls.key)
        self._context.set_alpn_protocols(["h2"])
        self._refusals = refusals
        self._handshake_s = handshake_s
        self._handshakes = asyncio.Semaphore(_HANDSHAKES_MAX)
        self._peers: dict[str, tuple[str, str]] = {}
        """Name in the certificate and address of each peer, by the address from which its bytes are
        relayed to grpc, as grpc writes it."""
        self._socket = _listening(address)
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()

    def start(self, inner_port: int) -> None:
        """Start the thread; the decrypted bytes go to `inner_port` on loopback."""
        self._inner_port = inner_port
        threading.Thread(target=self._run, name="tls", daemon=True).start()

    def identify(self, peer: str) -> tuple[str, str] | None:
        """Name in the certificate and address of the peer behind a peer address of grpc; None if it
        did not come through TLS.
        """
        return self._peers.get(peer)

    def close(self) -> None:
        """Accept no more connections and end the open ones."""
        with contextlib.suppress(RuntimeError):  # never started, or already ended
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
                except OSError:  # out of file descriptors; a refused handshake will free one
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
        """Serve one connection from its handshake to its end."""
        try:
            host, port, *_ = accepted.getpeername()
        except OSError:  # already disconnected
            accepted.close()
            return
        reader = asyncio.StreamReader(_READ_BYTES)
        secured = await self._handshake(accepted, asyncio.StreamReaderProtocol(reader))
        if isinstance(secured, RefusalReason):
            self._refusals.note(secured, f"{host}:{port}")
            accepted.close()
            return
        transport, protocol = secured
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        name = certificate_name(transport.get_extra_info("peercert"))
        with contextlib.suppress(OSError):  # one end broke the connection; both see it themselves
            await self._relay(reader, writer, (name, f"{host}:{port}"))

    async def _handshake(
        self, accepted: socket.socket, protocol: asyncio.StreamReaderProtocol
    ) -> tuple[asyncio.Transport, asyncio.StreamReaderProtocol] | RefusalReason:
        """An open connection with a verified certificate, or why it is refused."""
        if self._handshakes.locked():
            return RefusalReason.TOO_MANY
        try:
            async with self._handshakes:
                return await self._loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=self._context,
                    ssl_handshake_timeout=self._handshake_s,
                )  # fmt: skip
        except OSError as error:
            return _refusal(error)

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: tuple[str, str]
    ) -> None:
        """Relay bytes both ways until either end closes; the peer is identified meanwhile."""
        with contextlib.closing(writer):
            inner_reader, inner_writer = await asyncio.open_connection(
                _LOOPBACK, self._inner_port, limit=_READ_BYTES
            )
            own = "ipv4:{}:{}".format(*inner_writer.get_extra_info("sockname"))
            self._peers[own] = identity
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_carry(reader, inner_writer))
                    both.create_task(_carry(inner_reader, writer))
            except* OSError:
                pass  # as above
            finally:
                del self._peers[own]
                inner_writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy one direction; close the sink at its end."""
    with contextlib.closing(sink):
        while data := await source.read(_READ_BYTES):
            sink.write(data)
            await sink.drain()


def _refusal(error: OSError) -> RefusalReason:
    """Reason for a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (_NOT_YET_VALID, _HAS_EXPIRED):
            return RefusalReason.EXPIRED_CERTIFICATE
        return RefusalReason.UNTRUSTED_CERTIFICATE
    reason = (error.reason if isinstance(error, ssl.SSLError) else None) or ""
    if reason == _NO_CERTIFICATE:
        return RefusalReason.NO_CERTIFICATE
    if reason.endswith(_NOT_TRUSTED):
        return RefusalReason.SYNCER_NOT_TRUSTED
    return RefusalReason.NO_TLS


def certificate_name(certificate: Mapping[str, Any]) -> str:
    """The first DNS name of the certificate (subject alternative names), else its common name."""
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"]
    subject = [value for part in certificate["subject"] for key, value in part
               if key == "commonName"]  # fmt: skip
    return next(iter((*names, *subject)), "")


def _listening(address: str) -> socket.socket:
    """A listening socket; OSError if the address cannot be used."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:"):
        raise ValueError(f"{address}: a unix socket takes no TLS; use tokens")
    family, _, _, _, where = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.create_server(where[:2], family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return listening
