"""The syncer's end of all streams, over grpc: `Hub`.

    learner: Connection.send, send_payload ══ one stream ══► Hub.arrivals ─► syncer
             Connection.arrivals ◄═══════════════════════ Hub.send, send_payload, close

Each end of a stream has an Outbox, which grpc empties on its own thread, and a reader thread, which
reassembles frames and fills `arrivals`. Nothing here waits for the network except `stop` and
`close`, and those for a bounded time. The meaning of messages is not decided here.

A stream is served only after authentication: a token (`identity`) in the metadata of the call, or a
certificate (`tls_listener`). It delivers any number of Received (at the hub the first is the Hello
of the authenticated learner), then one Closed. Payloads are accepted only after `Hub.admit`. Pings
are answered here and not delivered. Messages to a session that has ended are dropped; its Closed is
already on the way.

Order on one stream: see `wire.proto`. In short, a Pull may overtake a waiting Fragment, and the
learner defers it until it holds the base version.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

import grpc

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Assembler, frame_of, payload_frames
from chaoslab.diloco.wire.identity import RefusalReason, Refusals, Tokens, claimed_by
from chaoslab.diloco.wire.mailbox import (
    Arrival,
    Bytes,
    Closed,
    Gate,
    Inbox,
    Outbox,
    Received,
    StreamEvent,
)
from chaoslab.diloco.wire.pings import Pings
from chaoslab.diloco.wire.streams import (
    METHOD,
    TOKEN_KEY,
    Limits,
    call_later,
    keep_freed_memory,
    receive,
)
from chaoslab.diloco.wire.tls import Security, Tls, refuse_plaintext
from chaoslab.diloco.wire.tls_listener import TlsListener

_CHECKS_PER_HELLO_S = 5
"""Checks per `hello_s`: a stream without a hello ends at most a fifth of `hello_s` late."""
_SPARE_THREADS = 16
"""Threads beyond `sessions_max`, used to refuse further streams."""


@dataclass(slots=True)
class _Session:
    number: int
    learner: str
    peer: str
    assembler: Assembler[pb.FromLearner]
    outbox: Outbox
    pings: Pings[pb.ToLearner]
    gate: Gate[Arrival[pb.FromLearner]]
    cancel: Callable[[], None]
    began_s: float = field(default_factory=time.monotonic)
    has_greeted: bool = False
    is_admitted: bool = False
    is_ending: bool = False
    """Being ended to make room for another stream; no longer counted."""


class Hub:
    """The syncer's end of all streams. `address` is host:port (port 0 for any) or unix:path.

    Raises InsecureAddress if the address is reachable from other machines and `tls` is None.
    Without TLS a learner is authenticated by its token.
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
        """Address that learners dial; has the real port once `start` has returned."""
        self._tls = tls
        self._limits = limits or Limits()
        self.arrivals: Inbox[Arrival[pb.FromLearner]] = self._limits.inbox()
        """StreamEvent arrived from all sessions, in order per session."""
        self.refusals = Refusals()
        """Refused streams and connections, by reason."""
        self._numbers = count(1)
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None
        self._has_stopped = threading.Event()

    def start(self) -> str:
        """Begin to accept streams; return the address with its real port. OSError if taken."""
        keep_freed_memory()
        service, method = METHOD.strip("/").split("/")
        # messages stay bytes, so that malformed ones are detected here
        attach = grpc.stream_stream_rpc_method_handler(self._attach)
        server = grpc.server(
            ThreadPoolExecutor(
                self._limits.sessions_max + _SPARE_THREADS, thread_name_prefix="stream"
            ),
            handlers=(grpc.method_handlers_generic_handler(service, {method: attach}),),
            options=self._limits.server_options(),
        )
        try:
            port = self._listen(server)
        except (RuntimeError, OSError) as error:
            raise OSError(f"cannot listen on {self.address}: {error}") from error
        server.start()
        self._server = server
        threading.Thread(target=self._end_silent_streams, name="hello", daemon=True).start()
        if not self.address.startswith("unix:"):
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
        return self.address

    def _listen(self, server: grpc.Server) -> int:
        """The port that learners dial; with TLS, grpc itself listens on another."""
        if not isinstance(self._tls, Tls):
            return int(server.add_insecure_port(self.address))
        listener = TlsListener(
            self.address, self._tls, self.refusals, handshake_s=self._limits.hello_s
        )
        listener.start(int(server.add_insecure_port("127.0.0.1:0")))
        self._tls_listener = listener
        return listener.port

    async def next_arrival(self, wait_s: float) -> Arrival[pb.FromLearner] | None:
        """The oldest of `arrivals`; None if nothing arrives for so long, or `wake` is called."""
        try:
            return self.arrivals.get(timeout=wait_s)
        except queue.Empty:
            return None

    def admit(self, session: int, payload_bytes_max: int | None = None) -> None:
        """Accept payloads from this session from now on, up to this many bytes each."""
        most, known = self._limits.payload_bytes_max, self._sessions.get(session)
        if known is not None:
            known.assembler.payload_bytes_max = min(most, payload_bytes_max or most)
            known.is_admitted = True

    def send(self, session: int, message: pb.ToLearner) -> None:
        """Queue a message without payload; ValueError if it is larger than one frame."""
        known = self._sessions.get(session)
        if known is not None and not known.outbox.put(frame_of(message)):
            known.cancel()

    def send_payload(
        self, session: int, message: pb.ToLearner, payload: Bytes, *, key: Hashable
    ) -> None:
        """Queue a message with its payload; replaces an unsent one with the same key.

        The payload is not copied: the caller must not change it. It may go to many sessions.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.put_payload(lambda: payload_frames(message, payload), key, len(payload))

    def pings(self, session: int) -> Pings[pb.ToLearner] | None:
        """Pings of a session, with its meter; None if it ended."""
        known = self._sessions.get(session)
        return known.pings if known else None

    def close(self, session: int, final_message: pb.ToLearner | None = None) -> None:
        """End a stream after the queued messages and `final_message`; unsent payloads are dropped.

        A peer that has not read them after `linger_s` seconds is disconnected.
        """
        known = self._sessions.get(session)
        if known is not None:
            known.outbox.close(None if final_message is None else frame_of(final_message))
            call_later(self._limits.linger_s, known.cancel)

    def stop(self) -> None:
        """End all streams as `close` does and accept no more; returns when they have ended."""
        self._has_stopped.set()
        for session in list(self._sessions):
            self.close(session)
        if self._server is not None:
            self._server.stop(self._limits.linger_s).wait()
        if self._tls_listener is not None:
            self._tls_listener.close()

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One stream, on a thread of grpc: read on another thread, return the frames to send."""
        outbox = Outbox(controls_max=self._limits.controls_max)
        learner, peer = self._identify(context)
        session = _Session(
            next(self._numbers),
            learner,
            peer,
            Assembler(pb.FromLearner.FromString, 0),
            outbox,
            Pings(pb.ToLearner, outbox),
            Gate(self.arrivals),
            context.cancel,
        )
        self._make_room(session, context)
        threading.Thread(
            target=self._read, args=(session, requests), name=f"read-{session.number}", daemon=True
        ).start()
        for at_the_end in (session.outbox.cut, session.gate.open):
            if not context.add_callback(at_the_end):
                at_the_end()
        return session.outbox.frames()

    def _identify(self, context: grpc.ServicerContext) -> tuple[str, str]:
        """Learner and address of the peer; aborts the call if it is not authenticated."""
        if self._tls_listener is not None:
            identity = self._tls_listener.identify(context.peer())
            if identity is None:
                self._abort(context, RefusalReason.NO_TLS, "")
            return identity
        shown = dict(context.invocation_metadata()).get(TOKEN_KEY, b"")
        token = shown.decode(errors="replace")
        learner = self._tokens.owner(token)
        if learner is None:
            why = RefusalReason.WRONG_TOKEN if token else RefusalReason.NO_TOKEN
            self._abort(context, why, claimed_by(token))
        return learner, context.peer()

    def _abort(self, context: grpc.ServicerContext, why: RefusalReason, claimed: str) -> NoReturn:
        self.refusals.note(why, context.peer(), claimed=claimed)
        code = grpc.StatusCode.UNAUTHENTICATED
        if why is RefusalReason.TOO_MANY:
            code = grpc.StatusCode.RESOURCE_EXHAUSTED
        context.abort(code, why.value)
        raise AssertionError("abort raises")

    def _make_room(self, session: _Session, context: grpc.ServicerContext) -> None:
        """Register the session or refuse it. A learner cannot use up the streams of the others."""
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
            self._abort(context, RefusalReason.TOO_MANY, session.learner)
        self._end_if_silent(silent)

    def _end_silent_streams(self) -> None:
        """Thread: end the streams that sent no hello within `hello_s`."""
        limit_s = self._limits.hello_s
        while not self._has_stopped.wait(limit_s / _CHECKS_PER_HELLO_S):
            with self._lock:
                open_now = list(self._sessions.values())
            for session in open_now:
                if time.monotonic() - session.began_s >= limit_s:
                    self._end_if_silent(session)

    def _end_if_silent(self, session: _Session) -> None:
        """End the session unless its hello has arrived meanwhile."""
        session.is_ending = not session.has_greeted
        if session.is_ending and session.number in self._sessions:
            self.refusals.note(RefusalReason.NO_HELLO, session.peer, known_as=session.learner)
            session.cancel()

    def _read(self, session: _Session, requests: Iterator[bytes]) -> None:
        def deliver(event: StreamEvent[pb.FromLearner], size_bytes: int = 0) -> None:
            if isinstance(event, Received) and not session.has_greeted:
                _check_hello(session, event.message)
            session.gate.put(Arrival(session.number, event), size_bytes)

        try:
            end = receive(requests, session.assembler, session.pings, deliver)
        except _HelloRefused as refused:
            end = self._refuse(session, refused)
        with self._lock:
            del self._sessions[session.number]
        if end.is_garbled:
            if not session.is_admitted:
                self.refusals.note(RefusalReason.GARBLED, session.peer, known_as=session.learner)
            session.cancel()
        session.outbox.close()
        call_later(self._limits.linger_s, session.cancel)
        deliver(end)

    def _refuse(self, session: _Session, refused: "_HelloRefused") -> Closed:
        """Tell the peer that its first message was refused, and end the stream."""
        reason, learner = refused.reason, session.learner
        self.refusals.note(reason, session.peer, claimed=refused.claimed, known_as=learner)
        text = f"{reason.value}: this stream is {learner}'s, by its token or certificate"
        session.outbox.close(frame_of(pb.ToLearner(refused=pb.Refused(reason=text))))
        return Closed(reason.value)


class _HelloRefused(Exception):
    """The first message of a stream is not the hello of the authenticated learner."""

    def __init__(self, reason: RefusalReason, *, claimed: str = "") -> None:
        super().__init__(reason.value)
        self.reason, self.claimed = reason, claimed


def _check_hello(session: _Session, message: pb.FromLearner) -> None:
    """Raise _HelloRefused unless the first message of a stream is the hello of its learner."""
    if message.WhichOneof("body") != "hello":
        raise _HelloRefused(RefusalReason.NOT_A_HELLO)
    if message.hello.learner != session.learner:
        raise _HelloRefused(RefusalReason.OTHER_NAME, claimed=message.hello.learner)
    session.has_greeted = True
