"""The streams between the learners and the syncer: the only door to grpc.

    learner: Connection.send, send_payload ══ one stream ══► Hub.arrivals ─► syncer
             Connection.arrivals ◄═══════════════════════ Hub.send, send_payload, close

Each end of a stream has an Outbox, which grpc empties on its own thread, and a reader thread, which
puts frames together and fills `arrivals`. Nothing that is called here waits for the network, except
`stop` and `close`, and those only for a bounded time. What the messages mean is not decided here.

Every stream gives, in this order: Opened (at the hub), any number of Received, perhaps one Garbled,
exactly one Closed. What is sent to a session that has ended is dropped; its Closed is on the way.

Order on one stream: see `wire.proto`. In short, a Pull may overtake a waiting Fragment, and the
learner defers it until it holds the base version.
"""

import random
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import grpc

from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.frames import (
    FRAME_BYTES_MAX,
    Assembler,
    Bytes,
    GarbledFrame,
    M,
    Message,

    frame_of,
    payload_frames,
)
from chaoslab.diloco.mailbox import Gate, Inbox, Outbox
from chaoslab.diloco.tls import InsecureAddress, Tls, add_tls_options, refuse_plaintext, tls_of

__all__ = [
    "Arrival", "Backoff", "Closed", "Connection", "Garbled", "Hub", "InsecureAddress", "Limits",
    "Opened", "Received", "Tls", "add_tls_options", "tls_of",
]  # fmt: skip

METHOD = "/chaoslab.Syncer/Attach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one end puts up with. The defaults hold 250 learners of up to a billion parameters."""

    sessions_max: int = 250
    """Streams at once; one more is refused."""
    payload_bytes_max: int = 1 << 34
    """A larger payload is Garbled."""
    arrivals_max: int = 1024
    """Messages of one session that nobody has taken; then its sender is slowed down."""
    arrivals_bytes_max: int = 1 << 28
    """Their payloads' bytes, likewise; one payload may always come in."""
    controls_max: int = 4096
    """Unsent messages without payload; then the stream is broken off: the other end is not reading."""
    keepalive_s: float = 2.0
    """A silent link is asked for a sign of life after this time …"""
    answer_s: float = 2.0
    """… and broken off when none came within this time; also the patience of `stop` and `close`."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream began. `peer` is its address as grpc prints it; nobody has said hello yet."""

    peer: str


@dataclass(frozen=True, slots=True)
class Received:
    """A message with its payload: read-only bytes, None for a body that has none."""

    message: Message
    payload: memoryview | None


@dataclass(frozen=True, slots=True)
class Garbled:
    """Something arrived that is not a message; the stream is broken off and Closed follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The stream has ended, whoever ended it; nothing more comes from it."""

    reason: str


What: TypeAlias = Opened | Received | Garbled | Closed


@dataclass(frozen=True, slots=True)
class Arrival:
    """Something that came from a session. A Connection has one session, number 0."""

    session: int
    what: What


# ---------------------------------------------------------------- the syncer's end


@dataclass(frozen=True, slots=True)
class _Session:
    number: int
    outbox: Outbox
    gate: Gate[Arrival]
    cancel: Callable[[], None]


class Hub:
    """The syncer's end of all streams. `address` is host:port (0 for any) or unix:path.

    InsecureAddress when it reaches beyond this machine and `tls` is None.
    """

    def __init__(
        self, address: str, *, tls: Tls | None = None, limits: Limits | None = None
    ) -> None:
        refuse_plaintext(address, tls)
        self._address = address
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival] = _inbox(self._limits)
        """What came in, of all sessions, in order for each."""
        self.garbled = 0
        """Streams that were broken off because of what came from them."""
        self._numbers = count(1)
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self) -> str:
        """Begin to accept streams; the address with its real port. OSError if it is taken."""
        keep_freed_memory()
        server = grpc.server(
            ThreadPoolExecutor(self._limits.sessions_max, thread_name_prefix="stream"),
            handlers=(_handler(self._attach),),
            options=_server_options(self._limits),
            maximum_concurrent_rpcs=self._limits.sessions_max,
        )
        try:
            port = _listen(server, self._address, self._tls)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address}: {error}") from error
        server.start()
        self._server = server
        is_socket_file = self._address.startswith("unix:")
        return self._address if is_socket_file else f"{self._address.rpartition(':')[0]}:{port}"

    def send(self, session: int, message: pb.ToLearner, *, key: Hashable | None = None) -> None:
        """Queue a message without payload; with a key it replaces an unsent one with that key.

        ValueError if it is larger than a frame.
        """
        known = self._sessions.get(session)
        if known is not None and not known.outbox.put(frame_of(message), key):
            known.cancel()

    def send_payload(
        self, session: int, message: pb.ToLearner, payload: Bytes, *, key: Hashable
    ) -> None:
        """Queue a message with its payload, in place of an unsent one with the same key.

        The payload is not copied: it must not change any more. Give it to as many sessions as you
        like, and fill `message`'s Payload by `describe` to have its checksum computed only once.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.put_payload(lambda: payload_frames(message, payload), key)

    def waiting(self, session: int) -> tuple[int, int]:
        """Messages and payloads that are queued for a session and not begun; (0, 0) if it ended."""
        known = self._sessions.get(session)
        return known.outbox.waiting if known else (0, 0)

    def close(self, session: int, final_message: pb.ToLearner | None = None) -> None:
        """End a stream after the queued messages and a last one; its payloads are dropped.

        A peer that does not take them within `answer_s` is cut off.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.close(None if final_message is None else frame_of(final_message))
            _soon(self._limits.answer_s, known.cancel)

    def stop(self) -> None:
        """End all streams as `close` does, and accept no more; returns when they have ended."""
        for session in list(self._sessions):
            self.close(session)
        if self._server is not None:
            self._server.stop(self._limits.answer_s).wait()

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One stream, on a thread of grpc's: reads on another thread, returns what to send."""
        session = _Session(
            next(self._numbers),
            Outbox(controls_max=self._limits.controls_max),
            self.arrivals.gate(),
            context.cancel,
        )
        with self._lock:
            self._sessions[session.number] = session
        session.gate.put(Arrival(session.number, Opened(context.peer())))
        threading.Thread(
            target=self._read, args=(session, requests), name=f"read-{session.number}", daemon=True
        ).start()
        for callback in (session.outbox.cut, session.gate.open):
            if not context.add_callback(callback):
                callback()
        return session.outbox.frames()

    def _read(self, session: _Session, requests: Iterator[bytes]) -> None:
        def deliver(what: What, size_bytes: int) -> None:
            session.gate.put(Arrival(session.number, what), size_bytes)

        assembler = Assembler(
            pb.FromLearner.FromString, payload_bytes_max=self._limits.payload_bytes_max
        )
        reason = _receive(requests, assembler, deliver)
        if isinstance(reason, Garbled):
            session.cancel()
            self.garbled += 1
            deliver(reason, 0)
        with self._lock:
            del self._sessions[session.number]
        session.outbox.close()
        _soon(self._limits.answer_s, session.cancel)
        deliver(Closed(reason.reason), 0)


# ---------------------------------------------------------------- a learner's end


class Connection:
    """A learner's end of one stream, for one use: open, talk, close. Reconnecting takes a new one.

    InsecureAddress when `address` lies beyond this machine and `tls` is None.
    """

    def __init__(
        self, address: str, *, tls: Tls | None = None, limits: Limits | None = None
    ) -> None:
        refuse_plaintext(address, tls)
        self._address = address
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival] = _inbox(self._limits)
        """Received messages, and one Closed at the end."""
        self._gate = self.arrivals.gate()
        self._outbox = Outbox(controls_max=self._limits.controls_max)
        self._failure = ""
        self._channel: grpc.Channel | None = None
        self._call: grpc.Call | None = None
        self._reader = threading.Thread(target=self._read, name="read", daemon=True)

    def open(self) -> None:
        """Begin to dial and return at once; nobody there is told by Closed."""
        keep_freed_memory()
        self._channel = _channel(self._address, self._tls, self._limits)
        self._call = self._channel.stream_stream(METHOD)(self._outbox.frames())
        self._reader.start()

    def send(self, message: pb.FromLearner, *, key: Hashable | None = None) -> None:
        """Queue a message without payload; with a key it replaces an unsent one with that key.

        ValueError if it is larger than a frame.
        """
        if not self._outbox.put(frame_of(message), key):
            self._fail("the syncer does not read what is sent")

    def send_payload(
        self, message: pb.FromLearner, payload: Bytes | Callable[[], Bytes], *, key: Hashable
    ) -> None:
        """Queue a message with its payload, in place of an unsent one with the same key.

        A callable is called on the sender's thread when its turn has come, or never when a newer
        one took its place. If it raises, the traceback is logged and the stream ends.
        """
        self._outbox.put_payload(lambda: self._frames(message, payload), key)

    def close(self, final_message: pb.FromLearner | None = None) -> None:
        """End the stream after the queued messages and a last one; payloads are dropped.

        Returns when the syncer has taken them, at the latest after `answer_s`. May be repeated.
        """
        self._outbox.close(None if final_message is None else frame_of(final_message))
        self._gate.open()
        if self._call is not None and self._channel is not None:
            self._reader.join(self._limits.answer_s)
            self._call.cancel()
            self._channel.close()

    def _frames(self, message: pb.FromLearner, payload: Bytes | Callable[[], Bytes]) -> Iterator[bytes]:
        try:
            content = payload() if callable(payload) else payload
            yield from payload_frames(message, content)
        except Exception as error:
            self._failure = f"a payload could not be made: {error!r}"
            raise

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._outbox.cut()
        if self._call is not None:
            self._call.cancel()

    def _read(self) -> None:
        def deliver(what: What, size_bytes: int) -> None:
            self._gate.put(Arrival(0, what), size_bytes)

        assembler = Assembler(
            pb.ToLearner.FromString, payload_bytes_max=self._limits.payload_bytes_max
        )
        reason = _receive(iter(self._call or ()), assembler, deliver)
        self._outbox.cut()
        self._gate.open()
        if isinstance(reason, Garbled):
            deliver(reason, 0)
            self._fail(reason.reason)
        deliver(Closed(self._failure or reason.reason), 0)


class Backoff:
    """Times between attempts to connect: doubling from `first_s` to `cap_s`, with jitter.

    Each is drawn from the upper half of its range, so that a crowd spreads out.
    """

    def __init__(self, chance: random.Random, *, first_s: float = 0.2, cap_s: float = 5.0) -> None:
        self._chance = chance
        self._first_s = first_s
        self._cap_s = cap_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait before the next attempt; the first time at most `first_s`."""
        most_s, self._next_s = self._next_s, min(2 * self._next_s, self._cap_s)
        return most_s * (1 - 0.5 * self._chance.random())

    def reset(self) -> None:
        """An attempt succeeded: begin again with the shortest."""
        self._next_s = self._first_s


# ---------------------------------------------------------------- both ends


def _receive(
    frames: Iterable[bytes], assembler: Assembler[M], deliver: Callable[[What, int], None]
) -> Garbled | Closed:
    """Deliver every message until the stream ends; why it ended."""
    try:
        for frame in frames:
            complete = assembler.take(frame)
            if complete is not None:
                message, payload = complete
                deliver(Received(message, payload), len(payload or b""))
    except GarbledFrame as error:
        return Garbled(str(error))
    except grpc.RpcError as error:
        return Closed(_describe_end(error))
    return Closed("the other end closed the stream")


def _describe_end(error: grpc.RpcError) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name.lower()}: {error.details()}"
    return "the connection was lost, or the learner broke the stream off"


def _inbox(limits: Limits) -> Inbox[Arrival]:
    return Inbox(items_max=limits.arrivals_max, bytes_max=limits.arrivals_bytes_max)


def _soon(after_s: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(after_s, act)
    timer.daemon = True
    timer.start()


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of a megabyte instead of returning each to the kernel.

    Freeing one large block raises its dynamic threshold (mallopt(3), M_MMAP_THRESHOLD). The buffers
    of grpc and ours are then used again instead of being mapped and zeroed for every chunk, which
    nearly doubles throughput. Elsewhere it does nothing.
    """
    bytearray((32 << 20) - (64 << 10))


def _handler(behavior: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]) -> object:
    service, method = METHOD.strip("/").split("/")
    return grpc.method_handlers_generic_handler(
        service, {method: grpc.stream_stream_rpc_method_handler(behavior)}
    )


def _listen(server: grpc.Server, address: str, tls: Tls | None) -> int:
    if tls is None:
        return int(server.add_insecure_port(address))
    ca, certificate, key = tls.read()
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=ca, require_client_auth=True
    )
    return int(server.add_secure_port(address, credentials))


def _channel(address: str, tls: Tls | None, limits: Limits) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(address, options=_channel_options(limits))
    ca, certificate, key = tls.read()
    options = _channel_options(limits)
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return grpc.secure_channel(
        address, grpc.ssl_channel_credentials(ca, key, certificate), options=options
    )


Options: TypeAlias = list[tuple[str, int | str]]


def _options(limits: Limits) -> Options:
    return [
        ("grpc.max_send_message_length", FRAME_BYTES_MAX),
        ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
        ("grpc.keepalive_time_ms", int(1000 * limits.keepalive_s)),
        ("grpc.keepalive_timeout_ms", int(1000 * limits.answer_s)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def _server_options(limits: Limits) -> Options:
    return [
        *_options(limits),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 100),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def _channel_options(limits: Limits) -> Options:
    """Each channel dials for itself: a shared one would wait out the failures of its predecessors."""
    return [
        *_options(limits),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.min_reconnect_backoff_ms", int(1000 * (limits.keepalive_s + limits.answer_s))),
    ]
