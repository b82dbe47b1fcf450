"""The streams between the learners and the syncer: the only door to grpc.

    learner: Connection.send, send_payload ══ one stream ══► Hub.arrivals ─► syncer
             Connection.arrivals ◄═══════════════════════ Hub.send, send_payload, close

Each end of a stream has an Outbox, which grpc empties on a thread of its own, and a reader thread,
which puts frames together and fills `arrivals`. Nothing that is called here waits for the network,
except `stop` and `close`, and those only for a bounded time. What the messages mean is not decided
here.

Every stream gives, in this order: Opened (at the hub), any number of Received, perhaps one Garbled,
exactly one Closed. Pings are answered here and not delivered. What is sent to a session that has
ended is dropped; its Closed is on the way.

Order on one stream: see `wire.proto`. In short, a Pull may overtake a waiting Fragment, and the
learner defers it until it holds the base version.
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

import grpc

from chaoslab.diloco import wire_pb2 as pb
from chaoslab.diloco.frames import Assembler, Bytes, GarbledFrame, M, frame_of, payload_frames
from chaoslab.diloco.mailbox import Gate, Inbox, Outbox
from chaoslab.diloco.pulse import Pulse
from chaoslab.diloco.streams import (
    Arrival,
    Backoff,
    Closed,
    Garbled,
    Limits,
    Opened,
    Received,
    What,
    keep_freed_memory,
    later,
)
from chaoslab.diloco.tls import (
    InsecureAddress,
    Security,
    Tls,
    add_tls_options,
    check_address,
    refuse_plaintext,
    tls_of,
)

__all__ = [
    "Arrival", "Backoff", "Closed", "Connection", "Garbled", "Hub", "InsecureAddress", "Limits",
    "Opened", "Received", "Tls", "add_tls_options", "check_address", "tls_of",
]  # fmt: skip

METHOD = "/chaoslab.Syncer/Attach"


# ---------------------------------------------------------------- the syncer's end


@dataclass(frozen=True, slots=True)
class _Session:
    number: int
    outbox: Outbox
    pulse: Pulse[pb.ToLearner]
    gate: Gate[Arrival[pb.FromLearner]]
    cancel: Callable[[], None]


class Hub:
    """The syncer's end of all streams. `address` is host:port (0 for any) or unix:path.

    InsecureAddress when it reaches beyond this machine and `tls` is None.
    """

    def __init__(self, address: str, *, tls: Security = None, limits: Limits | None = None) -> None:
        refuse_plaintext(address, tls)
        self.address = address
        """Where learners dial; with the real port once `start` has returned."""
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival[pb.FromLearner]] = _inbox(self._limits)
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
            options=self._limits.server_options(),
            maximum_concurrent_rpcs=self._limits.sessions_max,
        )
        try:
            port = _listen(server, self.address, self._tls)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self.address}: {error}") from error
        server.start()
        self._server = server
        if not self.address.startswith("unix:"):
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
        return self.address

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

        The payload is not copied: it must not change any more, and may go to many sessions.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.put_payload(lambda: payload_frames(message, payload), key, len(payload))

    def waiting(self, session: int) -> tuple[int, int]:
        """Messages and payloads that are queued for a session and not begun; (0, 0) if it ended."""
        known = self._sessions.get(session)
        return known.outbox.waiting if known else (0, 0)

    def pulse(self, session: int) -> Pulse[pb.ToLearner] | None:
        """A session's pings, and what measures it; None if it ended."""
        known = self._sessions.get(session)
        return known.pulse if known else None

    def close(self, session: int, final_message: pb.ToLearner | None = None) -> None:
        """End a stream after the queued messages and a last one; its payloads are dropped.

        A peer that does not take them within `linger_s` is cut off.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.close(None if final_message is None else frame_of(final_message))
            later(self._limits.linger_s, known.cancel)

    def stop(self) -> None:
        """End all streams as `close` does, and accept no more; returns when they have ended."""
        for session in list(self._sessions):
            self.close(session)
        if self._server is not None:
            self._server.stop(self._limits.linger_s).wait()

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One stream, on a thread of grpc's: read on another thread, return what to send."""
        outbox = Outbox(controls_max=self._limits.controls_max)
        session = _Session(
            next(self._numbers),
            outbox,
            Pulse(pb.ToLearner, outbox),
            self.arrivals.gate(),
            context.cancel,
        )
        with self._lock:
            self._sessions[session.number] = session
        session.gate.put(Arrival(session.number, Opened(context.peer())))
        threading.Thread(
            target=self._read, args=(session, requests), name=f"read-{session.number}", daemon=True
        ).start()
        for at_the_end in (session.outbox.cut, session.gate.open):
            if not context.add_callback(at_the_end):
                at_the_end()
        return session.outbox.frames()

    def _read(self, session: _Session, requests: Iterator[bytes]) -> None:
        def deliver(what: What[pb.FromLearner], size_bytes: int = 0) -> None:
            session.gate.put(Arrival(session.number, what), size_bytes)

        assembler = Assembler(pb.FromLearner.FromString, self._limits.payload_bytes_max)
        end = _receive(requests, assembler, session.pulse, deliver)
        with self._lock:
            del self._sessions[session.number]
            self.garbled += isinstance(end, Garbled)
        if isinstance(end, Garbled):
            session.cancel()
            deliver(end)
        session.outbox.close()
        later(self._limits.linger_s, session.cancel)
        deliver(Closed(end.reason))


# ---------------------------------------------------------------- a learner's end


class Connection:
    """A learner's end of one stream, for one use: open, talk, close. Reconnecting takes a new one.

    InsecureAddress when `address` lies beyond this machine and `tls` is None.
    """

    def __init__(self, address: str, *, tls: Security = None, limits: Limits | None = None) -> None:
        refuse_plaintext(address, tls)
        self._address = address
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival[pb.ToLearner]] = _inbox(self._limits)
        """Received messages, and one Closed at the end."""
        self._gate = self.arrivals.gate()
        self._outbox = Outbox(controls_max=self._limits.controls_max)
        self.pulse = Pulse(pb.FromLearner, self._outbox)
        """Its pings, and what measures it."""
        self._failure = ""
        """Why this end broke the stream off."""
        self._channel: grpc.Channel | None = None
        self._call: grpc.Call | None = None
        self._reader = threading.Thread(target=self._read, name="read", daemon=True)

    def open(self) -> None:
        """Begin to dial and return at once; if nobody is there, Closed will say so."""
        keep_freed_memory()
        self._channel = _channel(self._address, self._tls, self._limits)
        self._call = self._channel.stream_stream(METHOD)(self._outbox.frames())
        self._reader.start()

    def send(self, message: pb.FromLearner, *, key: Hashable | None = None) -> None:
        """Queue a message without payload; with a key it replaces an unsent one with that key.

        ValueError if it is larger than a frame.
        """
        if not self._outbox.put(frame_of(message), key):
            self._break_off("the syncer does not read what is sent")

    def send_payload(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        *,
        key: Hashable,
        midway: Callable[[], None] | None = None,
    ) -> None:
        """Queue a message with its payload, in place of an unsent one with the same key.

        A callable is called on the sender's thread when its turn has come, or never if a newer one
        took its place. If it raises, the traceback is logged and the stream ends. `midway` is
        called there when the header and the first chunk have left; what follows waits for it.
        """
        size = 0 if callable(payload) else len(payload)
        self._outbox.put_payload(lambda: self._frames(message, payload, midway), key, size)

    @property
    def waiting(self) -> tuple[int, int]:
        """Messages and payloads that are queued and not begun."""
        return self._outbox.waiting

    def close(self, final_message: pb.FromLearner | None = None) -> None:
        """End the stream after the queued messages and a last one; payloads are dropped.

        Returns when the syncer has taken them, at the latest after `linger_s`. May be repeated.
        """
        self._outbox.close(None if final_message is None else frame_of(final_message))
        self._gate.open()
        if self._call is not None and self._channel is not None:
            self._reader.join(self._limits.linger_s)
            self._call.cancel()
            self._channel.close()

    def _frames(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        midway: Callable[[], None] | None,
    ) -> Iterator[bytes]:
        try:
            made = payload() if callable(payload) else payload
            for number, frame in enumerate(payload_frames(message, made)):
                yield frame
                if number == 1 and midway is not None:
                    midway()
        except Exception as error:
            self._failure = f"a payload could not be made: {error!r}"
            raise

    def _break_off(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._outbox.cut()
        if self._call is not None:
            self._call.cancel()

    def _read(self) -> None:
        def deliver(what: What[pb.ToLearner], size_bytes: int = 0) -> None:
            self._gate.put(Arrival(0, what), size_bytes)

        assembler = Assembler(pb.ToLearner.FromString, self._limits.payload_bytes_max)
        end = _receive(self._call or (), assembler, self.pulse, deliver)
        self._outbox.cut()
        if isinstance(end, Garbled):
            deliver(end)
            self._break_off(end.reason)
        deliver(Closed(self._failure or end.reason))


# ---------------------------------------------------------------- both ends


def _receive(
    frames: Iterable[bytes],
    assembler: Assembler[M],
    pulse: Pulse[pb.FromLearner] | Pulse[pb.ToLearner],
    deliver: Callable[[What[M], int], None],
) -> Garbled | Closed:
    """Deliver every message until the stream ends; why it ended."""
    try:
        for frame in frames:
            message, payload = assembler.take(frame) or (None, None)
            size = len(payload or b"")
            pulse.frame(len(frame), filled=assembler.underway, completed=size)
            if message is not None and not pulse.takes(message):
                deliver(Received(message, payload), size)
    except GarbledFrame as error:
        return Garbled(str(error))
    except grpc.RpcError as error:
        return Closed(_describe_end(error))
    return Closed("the other end closed the stream")


def _describe_end(error: grpc.RpcError) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name.lower()}: {error.details()}"
    return "the connection was lost, or the learner broke the stream off"


def _inbox(limits: Limits) -> Inbox[Arrival[M]]:
    return Inbox(items_max=limits.arrivals_max, bytes_max=limits.arrivals_bytes_max)


def _handler(attach: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[bytes]]) -> object:
    """Routes the one method; messages stay bytes, so that a broken one is ours to judge."""
    service, method = METHOD.strip("/").split("/")
    return grpc.method_handlers_generic_handler(
        service, {method: grpc.stream_stream_rpc_method_handler(attach)}
    )


def _listen(server: grpc.Server, address: str, tls: Security) -> int:
    if not isinstance(tls, Tls):
        return int(server.add_insecure_port(address))
    ca, certificate, key = tls.read()
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=ca, require_client_auth=True
    )
    return int(server.add_secure_port(address, credentials))


def _channel(address: str, tls: Security, limits: Limits) -> grpc.Channel:
    options = limits.channel_options()
    if not isinstance(tls, Tls):
        return grpc.insecure_channel(address, options=options)
    ca, certificate, key = tls.read()
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    return grpc.secure_channel(address, credentials, options=options)
