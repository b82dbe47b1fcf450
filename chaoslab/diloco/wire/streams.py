"""Streams, for both ends: limits and receiving.

    frames ─► Assembler ─► Pings.handle, or deliver(Received) …  ─► Closed

`hub` and `connection` are built on this.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import grpc

from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import FRAME_BYTES_MAX, Assembler, GarbledFrame
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Inbox, M, Received, StreamEvent
from chaoslab.diloco.wire.pings import Pings

METHOD = "/chaoslab.Syncer/Attach"
"""The call, as both ends name it in grpc."""
TOKEN_KEY = "chaoslab-token-bin"
"""Metadata key of the call that holds the token, as UTF-8."""

Options: TypeAlias = list[tuple[str, int | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one end of a stream; a peer that exceeds one is slowed down or ended."""

    sessions_max: int = 250
    """Most streams at once; further ones are refused."""
    sessions_per_learner_max: int = 4
    """Most streams of one learner; a new one replaces the oldest without a hello, or is refused."""
    hello_s: float = 10.0
    """Seconds until a stream without a hello is ended, or a connection without a stream."""
    payload_bytes_max: int = 1 << 32
    """Largest payload in bytes; a larger one counts as malformed."""
    arrivals_max: int = 1024
    """Most unread messages of one session; beyond that its sender is slowed down."""
    arrivals_bytes_max: int = 1 << 28
    """Most unread payload bytes of one session; one payload is always accepted."""
    controls_max: int = 4096
    """Most unsent messages without payload; beyond that the stream is broken off."""
    keepalive_s: float = 2.0
    """Seconds of silence after which a keepalive ping is sent."""
    answer_s: float = 8.0
    """Seconds without an answer after which the stream is broken off. Longer than the policy takes
    to drop a member, and than an answer takes behind the 4 MB in the buffers of a link at 0.5
    MB/s."""
    linger_s: float = 2.0
    """Longest time that `close` and `stop` wait for the peer to read the last messages, in s."""

    def inbox(self) -> Inbox[Arrival[M]]:
        """New inbox with the bounds of these limits."""
        return Inbox(items_max=self.arrivals_max, bytes_max=self.arrivals_bytes_max)

    def channel_options(self, connect_s: float | None = None) -> Options:
        """Grpc options of a learner. Connections that share a subchannel share its backoff.

        An attempt to connect is given up after `connect_s`, by default as an open stream would be.
        """
        connect_s = self.keepalive_s + self.answer_s if connect_s is None else connect_s
        return [
            *self._options(),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.min_reconnect_backoff_ms", int(1000 * connect_s)),
        ]

    def server_options(self) -> Options:
        """Grpc options of the syncer: one process per port, frequent pings allowed."""
        return [
            *self._options(),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", self.sessions_per_learner_max),
            ("grpc.max_connection_idle_ms", int(1000 * self.hello_s)),
            ("grpc.server_handshake_timeout_ms", int(1000 * self.hello_s)),
            ("grpc.http2.min_ping_interval_without_data_ms", 100),
            ("grpc.http2.max_ping_strikes", 0),
        ]

    def _options(self) -> Options:
        """Options of both ends. grpc 1.85 never arms keepalive_timeout_ms, only ping_timeout_ms."""
        return [
            ("grpc.max_send_message_length", FRAME_BYTES_MAX),
            ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
            ("grpc.keepalive_time_ms", int(1000 * self.keepalive_s)),
            ("grpc.keepalive_timeout_ms", int(1000 * self.answer_s)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.ping_timeout_ms", int(1000 * self.answer_s)),
            ("grpc.http2.max_pings_without_data", 0),
        ]


def receive(
    frames: Iterable[bytes],
    assembler: Assembler[M],
    pings: Pings[pb.FromLearner] | Pings[pb.ToLearner],
    deliver: Callable[[StreamEvent[M], int], None],
) -> Closed:
    """Deliver every message until the stream ends; return why it ended."""
    try:
        for frame in frames:
            message, payload = assembler.take(frame) or (None, None)
            size = len(payload or b"")
            pings.timer.frame(len(frame), filled=assembler.underway, completed=size)
            if message is not None and not pings.handle(message):
                deliver(Received(message, payload), size)
    except GarbledFrame as error:
        return Closed(str(error), is_garbled=True)
    except grpc.RpcError as error:
        return Closed(_describe_end(error))
    return Closed("the other end closed the stream")


def _describe_end(error: grpc.RpcError) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name.lower()}: {error.details()}"
    return "the connection was lost, or the learner broke the stream off"


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of a megabyte instead of returning each to the kernel.

    Freeing one large block raises its dynamic threshold (mallopt(3), M_MMAP_THRESHOLD). Buffers are
    then used again instead of being mapped and zeroed for every chunk, which nearly doubles
    throughput. With another malloc this has no effect.
    """
    bytearray((32 << 20) - (64 << 10))


def call_later(after_s: float, act: Callable[[], None]) -> None:
    """Call `act` after this many seconds, on a thread that does not keep the process alive."""
    timer = threading.Timer(after_s, act)
    timer.daemon = True
    timer.start()
