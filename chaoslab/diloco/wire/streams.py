"""What both ends of a stream share: its limits, what arrives from it, when to dial again.

No grpc here; `wire` is built on this.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias

from chaoslab.diloco.wire.frames import FRAME_BYTES_MAX, M

Options: TypeAlias = list[tuple[str, int | str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one end puts up with."""

    sessions_max: int = 250
    """Streams at once; one more is refused."""
    sessions_per_learner_max: int = 4
    """Of one learner; then its oldest one without a hello makes room, or one more is refused."""
    hello_s: float = 10.0
    """After which a stream without a hello ends, and so does a connection without a stream."""
    payload_bytes_max: int = 1 << 32
    """A larger payload is Garbled."""
    arrivals_max: int = 1024
    """Messages of one session that nobody has taken; then its sender is slowed down."""
    arrivals_bytes_max: int = 1 << 28
    """Their payloads' bytes, likewise; a session with nothing waiting may always bring in one."""
    controls_max: int = 4096
    """Unsent messages without payload; then the stream is broken off: nobody reads them."""
    keepalive_s: float = 2.0
    """A link that is silent for this long is asked for a sign of life …"""
    answer_s: float = 8.0
    """… and broken off if none comes within this time: later than the policy drops a member, and
    later than an answer takes behind the 4 MB that the buffers of a link at 0.5 MB/s hold."""
    linger_s: float = 2.0
    """How long `close` and `stop` wait for the other end to take the last words."""

    def channel_options(self) -> Options:
        """For a learner's end. Each dials for itself: a shared one waits out older failures."""
        return [
            *self._options(),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.min_reconnect_backoff_ms", int(1000 * (self.keepalive_s + self.answer_s))),
        ]

    def server_options(self) -> Options:
        """For the syncer's end. One process owns the port; frequent pings are welcome."""
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
        """For both ends. grpc 1.85 never arms keepalive's own timeout; that of pings works."""
        return [
            ("grpc.max_send_message_length", FRAME_BYTES_MAX),
            ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
            ("grpc.keepalive_time_ms", int(1000 * self.keepalive_s)),
            ("grpc.keepalive_timeout_ms", int(1000 * self.answer_s)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.ping_timeout_ms", int(1000 * self.answer_s)),
            ("grpc.http2.max_pings_without_data", 0),
        ]


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream began. `peer` is its address as grpc prints it; nobody has said hello yet.

    `learner` is whose token or certificate was shown.
    """

    peer: str
    learner: str


@dataclass(frozen=True, slots=True)
class Received(Generic[M]):
    """A message with its payload: read-only bytes, None for a body that has none.

    The payload's memory is used again when nothing refers to it any more.
    """

    message: M
    payload: memoryview | None


@dataclass(frozen=True, slots=True)
class Garbled:
    """Something arrived that is not a message; the stream is broken off and Closed follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The stream has ended, whoever ended it; nothing more comes from it."""

    reason: str


What: TypeAlias = Opened | Received[M] | Garbled | Closed


@dataclass(frozen=True, slots=True)
class Arrival(Generic[M]):
    """Something that came from a session. A learner's end has one session, number 0."""

    session: int
    what: What[M]


class Backoff:
    """Times between attempts to connect: doubling from `first_s` to `cap_s`, with jitter.

    Each is drawn from nearly all of its range, so that a crowd that lost the syncer at one instant
    spreads out at once. A large crowd takes its time: together it makes about `_CROWD_PER_S`
    attempts a second at most, however large it is.
    """

    def __init__(self, chance: random.Random, *, first_s: float = 0.2, cap_s: float = 5.0) -> None:
        self._chance = chance
        self._first_s = first_s
        self._cap_s = cap_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait before the next attempt; the first time at most `first_s`."""
        most_s, self._next_s = self._next_s, min(2 * self._next_s, self._cap_s)
        return most_s * self._chance.uniform(_LEAST_SHARE, 1.0)

    def reset(self) -> None:
        """The stream was of use: begin again with the shortest."""
        self._next_s = self._first_s

    def spread(self, crowd: int) -> None:
        """So many may lose the syncer at once: begin with a time in which all of them have room."""
        needed_s = crowd / _CROWD_PER_S
        self._first_s, self._cap_s = max(self._first_s, needed_s), max(self._cap_s, 2 * needed_s)
        self._next_s = max(self._next_s, self._first_s)


_LEAST_SHARE = 0.1
_CROWD_PER_S = 100.0


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of a megabyte instead of returning each to the kernel.

    Freeing one large block raises its dynamic threshold (mallopt(3), M_MMAP_THRESHOLD). The buffers
    of grpc and ours are then used again instead of being mapped and zeroed for every chunk, which
    nearly doubles throughput. With another malloc it does nothing.
    """
    bytearray((32 << 20) - (64 << 10))


def later(after_s: float, act: Callable[[], None]) -> None:
    """Do it after a while, on a thread that does not keep the process alive."""
    timer = threading.Timer(after_s, act)
    timer.daemon = True
    timer.start()
