"""Measurements of a link at one end: round trips, bytes received, throughput, silence.

    frames of a stream ─► PayloadTimer ─► Meter ─ read ─► Reading, once a second ─► link.measured
    answered pings ─────────────────────► │
    the next stream of the same link ───► ┘

A Meter lives as long as its reporter, a PayloadTimer as long as one stream. Everything is measured
at the receiver: what a sender has sent may lie in buffers for seconds. Bytes are those of messages,
without HTTP/2, TLS and TCP overhead. No sockets; the clock is a parameter.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

PING_S = 0.25
"""Seconds between two pings of one end."""
MEASURE_S = 1.0
"""Seconds between two reports of one end."""

_RTTS_MOST = 256
"""Most round trips kept in one window, in case nothing reads the meter."""


class Queued(TypedDict):
    """What waits at an end to be sent, as `LinkMeasured` says it."""

    queued: int
    queued_bytes: int


NOTHING_QUEUED: Queued = {"queued": 0, "queued_bytes": 0}


def _round_trips() -> deque[float]:
    return deque(maxlen=_RTTS_MOST)


@dataclass(slots=True, kw_only=True)
class Reading:
    """Measurements of one window, from the last reading to this one."""

    window_s: float = 0.0
    silent_s: float = 0.0
    """Seconds since the last frame arrived, even if that was before the window."""
    rtts_s: deque[float] = field(default_factory=_round_trips)
    """Round trips of the pings answered in the window."""
    probe_rtts_s: deque[float] = field(default_factory=_round_trips)
    """Round trips of the separate connection (`probe`); empty at the syncer's end."""
    pings_sent: int = 0
    bytes: int = 0
    """Bytes received since the meter was made."""
    payload_bytes: int = 0
    """Bytes of the payloads completed in the window."""
    timed_bytes: int = 0
    """Payload bytes received in the window, without each payload's first chunk."""
    timed_s: float = 0.0
    """Time in which `timed_bytes` arrived: for each chunk, the seconds since the chunk or the
    header before it. Their quotient is the throughput of the link while it is in use."""

    @property
    def bytes_per_s(self) -> float | None:
        """Throughput while payloads were arriving; None if no chunk came."""
        return self.timed_bytes / self.timed_s if self.timed_bytes and self.timed_s > 0 else None


class Meter:
    """Sums over all streams of one link. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._began_s = self._arrived_s = now()
        self._bytes = 0
        self._window = Reading()

    def arrived(
        self,
        now_s: float,
        size_bytes: int,
        *,
        timed_bytes: int = 0,
        timed_s: float = 0.0,
        payload_bytes: int = 0,
    ) -> None:
        """Count a received frame, and of its payload what `Reading` counts."""
        with self._lock:
            self._arrived_s = now_s
            self._bytes += size_bytes
            self._window.timed_bytes += timed_bytes
            self._window.timed_s += timed_s
            self._window.payload_bytes += payload_bytes

    def take_over(self, other: "Meter") -> None:
        """Add what another meter of the same link has received."""
        with other._lock:  # noqa: SLF001  # other is a Meter too
            size_bytes, arrived_s = other._bytes, other._arrived_s  # noqa: SLF001
        with self._lock:
            self._bytes += size_bytes
            if size_bytes:
                self._arrived_s = max(self._arrived_s, arrived_s)

    def pinged(self) -> None:
        """Count a sent ping."""
        with self._lock:
            self._window.pings_sent += 1

    def answered(self, rtt_s: float) -> None:
        """Record the round trip of an answered ping."""
        with self._lock:
            self._window.rtts_s.append(rtt_s)

    def probed(self, rtt_s: float) -> None:
        """Record a round trip of the separate connection; see `probe`."""
        with self._lock:
            self._window.probe_rtts_s.append(rtt_s)

    def read(self) -> Reading:
        """End the window and begin the next."""
        with self._lock:
            now_s, reading = self.now(), self._window
            reading.window_s = now_s - self._began_s
            reading.silent_s = max(0.0, now_s - self._arrived_s)
            reading.bytes = self._bytes
            self._began_s, self._window = now_s, Reading()
            return reading


class PayloadTimer:
    """Timing of the payloads of one stream, chunk by chunk. For the thread that reads it."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._filled: int | None = None
        self._chunk_s = 0.0

    def frame(self, size_bytes: int, *, filled: int | None, completed: int) -> None:
        """Record a frame that arrived now.

        `filled`: bytes received of the payload in progress, None without one, 0 at its header.
        `completed`: size in bytes of the payload that this frame completed, otherwise 0.
        """
        now_s, reached = self.meter.now(), completed or filled or 0
        timed_bytes, timed_s = 0, 0.0
        if self._filled is not None and reached > self._filled:
            timed_bytes, timed_s = reached - self._filled, now_s - self._chunk_s
        if self._filled is None or reached > self._filled:
            self._chunk_s = now_s
        self._filled = filled
        self.meter.arrived(
            now_s, size_bytes, timed_bytes=timed_bytes, timed_s=timed_s, payload_bytes=completed
        )


class Periodic:
    """Timer of a period in seconds. A late call does not bring the next one forward."""

    def __init__(self, period_s: float, now_s: float) -> None:
        self._period_s = period_s
        self.due_s = now_s + period_s

    def is_due(self, now_s: float) -> bool:
        """Whether the period has passed; if so, the next one begins."""
        if now_s < self.due_s:
            return False
        self.due_s = max(self.due_s + self._period_s, now_s + self._period_s / 2)
        return True
