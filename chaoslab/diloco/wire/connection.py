"""A learner's end of one stream, over grpc: `Connection`. See `hub` for what both ends do.

open ─► send, send_payload ─► Outbox ─► grpc's thread ═► the syncer
        arrivals ◄─ a reader thread ◄═══════════════════ the syncer
"""

import queue
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any

import grpc

from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Assembler, frame_of, is_bulk, payload_frames
from chaoslab.diloco.wire.mailbox import Arrival, Bytes, Closed, Gate, Inbox, Outbox, StreamEvent
from chaoslab.diloco.wire.pings import Pings
from chaoslab.diloco.wire.streams import (
    METHOD,
    TOKEN_KEY,
    Limits,
    Options,
    keep_freed_memory,
    receive,
)
from chaoslab.diloco.wire.tls import Security, Tls, refuse_plaintext


class Connection:
    """A learner's end of one stream, for one use: open, send, close. A reconnect makes a new one.

    Raises InsecureAddress if `address` is on another machine and `tls` is None. `token`
    authenticates the learner where no certificate does.
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
        self.arrivals: Inbox[Arrival[pb.ToLearner]] = self._limits.inbox()
        """Received messages, then one Closed."""
        self._gate = Gate(self.arrivals)
        self._outbox = Outbox(controls_max=self._limits.controls_max)
        self.pings = Pings(pb.FromLearner, self._outbox)
        """Pings of this stream, with its meter."""
        self._failure = ""
        """Why this end closed the stream with an error; empty if it did not."""
        self._channel: grpc.Channel | None = None
        self._call: grpc.Call | None = None
        self._reader = threading.Thread(target=self._read, name="read", daemon=True)

    def open(self, within_s: float | None = None) -> None:
        """Begin to connect and return at once; a failure is reported by Closed.

        It is given up after `within_s`, by default as late as an open stream without an answer.
        """
        keep_freed_memory()
        metadata = [(TOKEN_KEY, self._token.encode())] if self._token else []
        options = self._limits.channel_options(within_s)
        try:
            self._channel = _channel(self._address, self._tls, options)
        except (OSError, ValueError) as error:  # a TLS file that was there at the start
            self._failure = f"cannot connect: {error}"
        else:
            frames = self._outbox.frames()
            self._call = self._channel.stream_stream(METHOD)(frames, metadata=metadata)
        self._reader.start()

    async def next_arrival(self, wait_s: float) -> StreamEvent[pb.ToLearner] | None:
        """The oldest of `arrivals`; None if nothing arrives for so long."""
        try:
            return self.arrivals.get(timeout=wait_s).event
        except queue.Empty:
            return None

    def send(self, message: pb.FromLearner, *, key: Hashable | None = None) -> None:
        """Queue a message without payload; with a key it replaces an unsent one with the same key.

        ValueError if it is larger than one frame.
        """
        if not self._outbox.put(frame_of(message), key):
            self._break_off("the syncer does not read what is sent")

    def send_payload(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        *,
        key: Hashable,
        midway: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Queue a message with its payload; replaces an unsent one with the same key.

        Other payloads pass a checkpoint, also while it is being sent.

        A callable is called on the sender's thread when its turn comes, or never if a newer one has
        replaced it. If it raises, the traceback is logged and the stream ends. `midway` is called
        on that thread after the header and the first chunk; the remaining chunks wait until it
        returns.
        """
        size = 0 if callable(payload) else len(payload)
        self._outbox.put_payload(
            lambda: self._frames(message, payload, midway), key, size, is_bulk=is_bulk(message)
        )

    def close(self, final_message: pb.FromLearner | None = None) -> None:
        """End the stream after the queued messages and `final_message`; payloads are dropped.

        Returns when the syncer has read them, at most after `linger_s` seconds. May be repeated.
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
        midway: Callable[[], Coroutine[Any, Any, None]] | None,
    ) -> Iterator[bytes]:
        try:
            made = payload() if callable(payload) else payload
            for number, frame in enumerate(payload_frames(message, made)):
                yield frame
                if number == 1 and midway is not None:
                    run_now(midway())
        except Exception as error:
            self._failure = f"a payload could not be made: {error!r}"
            raise

    def _break_off(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._outbox.cut()
        if self._call is not None:
            self._call.cancel()

    def _read(self) -> None:
        def deliver(event: StreamEvent[pb.ToLearner], size_bytes: int = 0) -> None:
            self._gate.put(Arrival(0, event), size_bytes)

        assembler = Assembler(pb.ToLearner.FromString, self._limits.payload_bytes_max)
        end = receive(self._call or (), assembler, self.pings, deliver)
        self._outbox.cut()
        if end.is_garbled:
            self._break_off(end.reason)
        deliver(Closed(self._failure or end.reason, is_garbled=end.is_garbled))


def _channel(address: str, tls: Security, options: Options) -> grpc.Channel:
    if not isinstance(tls, Tls):
        return grpc.insecure_channel(address, options=options)
    ca, certificate, key = tls.read()
    if tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    return grpc.secure_channel(address, credentials, options=options)
