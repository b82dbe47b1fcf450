"""The streams between the learners and the syncer: the only door to grpc.

    learner: Connection.send, send_payload ══ one stream ══► Hub.arrivals ─► syncer
             Connection.arrivals ◄═══════════════════════ Hub.send, send_payload, close

Each end of a stream has an Outbox, which grpc empties on a thread of its own, and a reader thread,
which puts frames together and fills `arrivals`. Nothing that is called here waits for the network,
except `stop` and `close`, and those only for a bounded time. What the messages mean is not decided
here.

Nobody is served who has not shown whose stream it is: a token (`identity`) in the metadata of the
call, or a certificate (`tls_listener`). A stream gives, in this order: Opened (at the hub), any
number of Received, the first of them that learner's own Hello, perhaps one Garbled, exactly one
Closed. Until `Hub.admit` it may carry no payload. Pings are answered here and not delivered. What
is sent to a session that has ended is dropped; its Closed is on the way.

Order on one stream: see `wire.proto`. In short, a Pull may overtake a waiting Fragment, and the
learner defers it until it holds the base version.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

import grpc

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Assembler, Bytes, GarbledFrame, M, frame_of, payload_frames
from chaoslab.diloco.wire.identity import Suspicion, Tokens, TurnedAway, claimed_by
from chaoslab.diloco.wire.mailbox import Gate, Inbox, Outbox
from chaoslab.diloco.wire.pings import Pulse
from chaoslab.diloco.wire.streams import (
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
from chaoslab.diloco.wire.tls import (
    InsecureAddress,
    Security,
    Tls,
    add_tls_options,
    check_address,
    refuse_plaintext,
    tls_of,
)
from chaoslab.diloco.wire.tls_listener import TlsListener

__all__ = [
    "Arrival", "Backoff", "Closed", "Connection", "Garbled", "Hub", "InsecureAddress", "Limits",
    "Opened", "Received", "Tls", "add_tls_options", "check_address", "tls_of",
]  # fmt: skip

METHOD = "/chaoslab.Syncer/Attach"
TOKEN_KEY = "chaoslab-token-bin"
"""Under which the token stands in the metadata of the call, as UTF-8."""
_LOOKS = 5
"""A stream without a hello lives a fifth of its time too long at most."""
_SPARE_THREADS = 16
"""Beside those that serve streams: to turn others away."""


# ---------------------------------------------------------------- the syncer's end


@dataclass(slots=True)
class _Session:
    number: int
    learner: str
    peer: str
    assembler: Assembler[pb.FromLearner]
    outbox: Outbox
    pulse: Pulse[pb.ToLearner]
    gate: Gate[Arrival[pb.FromLearner]]
    cancel: Callable[[], None]
    began_s: float = field(default_factory=time.monotonic)
    has_greeted: bool = False
    is_admitted: bool = False
    is_ending: bool = False
    """It made room for another one."""


class Hub:
    """The syncer's end of all streams. `address` is host:port (0 for any) or unix:path.

    InsecureAddress when it reaches beyond this machine and `tls` is None. Without TLS a learner is
    known by its token.
    """

    def __init__(
        self,
        address: str,
        *,
        tokens: Tokens | None = None,
        tls: Security = None,
        limits: Limits | None = None,
    ) -> None:
        refuse_plaintext(address, tls)
        self._tokens = tokens or Tokens(())
        self._tls_listener: TlsListener | None = None
        self.address = address
        """Where learners dial; with the real port once `start` has returned."""
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival[pb.FromLearner]] = _inbox(self._limits)
        """What came in, of all sessions, in order for each."""
        self.garbled = 0
        """Streams that were broken off because of what came from them."""
        self.turned_away = TurnedAway()
        """Who was not let in, or never got to a hello."""
        self._numbers = count(1)
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None
        self._has_stopped = threading.Event()

    def start(self) -> str:
        """Begin to accept streams; the address with its real port. OSError if it is taken."""
        keep_freed_memory()
        server = grpc.server(
            ThreadPoolExecutor(
                self._limits.sessions_max + _SPARE_THREADS, thread_name_prefix="stream"
            ),
            handlers=(_handler(self._attach),),
            options=self._limits.server_options(),
        )
        try:
            port = self._listen(server)
        except (RuntimeError, OSError) as error:
            raise OSError(f"cannot listen on {self.address}: {error}") from error
        server.start()
        self._server = server
        threading.Thread(target=self._run_loop, name="hello", daemon=True).start()
        if not self.address.startswith("unix:"):
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
        return self.address

    def _listen(self, server: grpc.Server) -> int:
        """The port where learners dial; with TLS, grpc itself has another."""
        if not isinstance(self._tls, Tls):
            return int(server.add_insecure_port(self.address))
        door = TlsListener(
            self.address, self._tls, self.turned_away, handshake_s=self._limits.hello_s
        )
        door.start(int(server.add_insecure_port("127.0.0.1:0")))
        self._tls_listener = door
        return door.port

    def admit(self, session: int, payload_bytes_max: int | None = None) -> None:
        """The learner is welcome: payloads are taken from now on, up to this size."""
        most, known = self._limits.payload_bytes_max, self._sessions.get(session)
        if known is not None:
            known.assembler.payload_bytes_max = min(most, payload_bytes_max or most)
            known.is_admitted = True

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
        self._has_stopped.set()
        for session in list(self._sessions):
            self.close(session)
        if self._server is not None:
            self._server.stop(self._limits.linger_s).wait()
        if self._tls_listener is not None:
            self._tls_listener.close()

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One stream, on a thread of grpc's: read on another thread, return what to send."""
        outbox = Outbox(controls_max=self._limits.controls_max)
        learner, peer = self._identify(context)
        session = _Session(
            next(self._numbers),
            learner,
            peer,
            Assembler(pb.FromLearner.FromString, 0),
            outbox,
            Pulse(pb.ToLearner, outbox),
            self.arrivals.gate(),
            context.cancel,
        )
        self._make_room(session, context)
        session.gate.put(Arrival(session.number, Opened(session.peer, session.learner)))
        threading.Thread(
            target=self._read, args=(session, requests), name=f"read-{session.number}", daemon=True
        ).start()
        for at_the_end in (session.outbox.cut, session.gate.open):
            if not context.add_callback(at_the_end):
                at_the_end()
        return session.outbox.frames()

    def _identify(self, context: grpc.ServicerContext) -> tuple[str, str]:
        """Whose stream it is, and from where; others are sent away before a byte was read."""
        if self._tls_listener is not None:
            shown = self._tls_listener.known(context.peer())
            if shown is None:
                self._turn_away(context, Suspicion.NO_TLS, "")
            return shown.name, shown.peer
        return self._whose_token(context), context.peer()

    def _whose_token(self, context: grpc.ServicerContext) -> str:
        shown = dict(context.invocation_metadata()).get(TOKEN_KEY, b"")
        token = shown.decode(errors="replace")
        learner = self._tokens.whose(token)
        if learner is None:
            why = Suspicion.WRONG_TOKEN if token else Suspicion.NO_TOKEN
            self._turn_away(context, why, claimed_by(token))
        return learner

    def _turn_away(self, context: grpc.ServicerContext, why: Suspicion, claimed: str) -> NoReturn:
        self.turned_away.note(why, context.peer(), claimed=claimed)
        code = grpc.StatusCode.UNAUTHENTICATED
        if why is Suspicion.TOO_MANY:
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
        context.abort(code, why.value)
        raise AssertionError("abort raises")

    def _make_room(self, session: _Session, context: grpc.ServicerContext) -> None:
        """Take it in among the others. One learner's streams leave room for everybody else's."""
        with self._lock:
            lasting = [one for one in self._sessions.values() if not one.is_ending]
            own = [one for one in lasting if one.learner == session.learner]
            silent = next((one for one in own if not one.has_greeted), None)
            is_full = len(own) >= self._limits.sessions_per_learner_max
            has_room = len(lasting) < self._limits.sessions_max and not is_full
            if has_room or silent is not None:
                self._sessions[session.number] = session
            if not has_room and silent is not None:
                silent.is_ending = True
        if has_room:
            return
        if silent is None:
            self._turn_away(context, Suspicion.TOO_MANY, session.learner)
        self._miss(silent)

    def _run_loop(self) -> None:
        """On a thread of its own: end the streams that had their time for a hello."""
        limit_s = self._limits.hello_s
        while not self._has_stopped.wait(limit_s / _LOOKS):
            with self._lock:
                open_now = list(self._sessions.values())
            for session in open_now:
                if time.monotonic() - session.began_s >= limit_s:
                    self._miss(session)

    def _miss(self, session: _Session) -> None:
        """It goes, unless it has said hello meanwhile."""
        session.is_ending = not session.has_greeted
        if session.is_ending and session.number in self._sessions:
            self.turned_away.note(Suspicion.NO_HELLO, session.peer, known_as=session.learner)
            session.cancel()

    def _greet(self, session: _Session, message: pb.FromLearner) -> Suspicion | None:
        """The first message; what is wrong with it."""
        if message.WhichOneof("body") != "hello":
            return Suspicion.NOT_A_HELLO
        if message.hello.learner != session.learner:
            return Suspicion.OTHER_NAME
        session.has_greeted = True
        return None

    def _read(self, session: _Session, requests: Iterator[bytes]) -> None:
        def deliver(what: What[pb.FromLearner], size_bytes: int = 0) -> None:
            if isinstance(what, Received) and not session.has_greeted:
                wrong = self._greet(session, what.message)
                if wrong is not None:
                    raise _Unwelcome(wrong, claimed=what.message.hello.learner)
            session.gate.put(Arrival(session.number, what), size_bytes)

        end: Garbled | Closed
        try:
            end = _receive(requests, session.assembler, session.pulse, deliver)
        except _Unwelcome as unwelcome:
            end = self._refuse(session, unwelcome)
        with self._lock:
            del self._sessions[session.number]
            self.garbled += isinstance(end, Garbled)
        if isinstance(end, Garbled):
            if not session.is_admitted:
                self.turned_away.note(Suspicion.GARBLED, session.peer, known_as=session.learner)
            session.cancel()
            deliver(end)
        session.outbox.close()
        later(self._limits.linger_s, session.cancel)
        deliver(Closed(end.reason))

    def _refuse(self, session: _Session, unwelcome: "_Unwelcome") -> Closed:
        """Its first message was not that learner's hello: tell it so, and end."""
        reason, learner = unwelcome.reason, session.learner
        self.turned_away.note(reason, session.peer, claimed=unwelcome.claimed, known_as=learner)
        text = f"{reason.value}: this stream is {learner}'s, by its token or certificate"
        session.outbox.close(frame_of(pb.ToLearner(refused=pb.Refused(reason=text))))
        return Closed(reason.value)


class _Unwelcome(Exception):
    """The first message of a stream is not the hello of the learner whose stream it is."""

    def __init__(self, reason: Suspicion, *, claimed: str) -> None:
        super().__init__(reason.value)
        self.reason, self.claimed = reason, claimed


# ---------------------------------------------------------------- a learner's end


class Connection:
    """A learner's end of one stream, for one use: open, talk, close. Reconnecting takes a new one.

    InsecureAddress when `address` lies beyond this machine and `tls` is None. `token` is what the
    syncer knows the learner by, where TLS does not say who it is.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str = "",
        tls: Security = None,
        limits: Limits | None = None,
    ) -> None:
        refuse_plaintext(address, tls)
        self._address = address
        self._token = token
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
        metadata = [(TOKEN_KEY, self._token.encode())] if self._token else []
        self._call = self._channel.stream_stream(METHOD)(self._outbox.frames(), metadata=metadata)
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


def _channel(address: str, tls: Security, limits: Limits) -> grpc.Channel:
    options = limits.channel_options()
    if not isinstance(tls, Tls):
        return grpc.insecure_channel(address, options=options)
    ca, certificate, key = tls.read()
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    return grpc.secure_channel(address, credentials, options=options)
