"""What one end of a link sees of it: round trips, what arrives, how fast, and how long nothing did.

    frames of a stream ─► Receipts ─► Meter ─ read ─► Reading, about once a second ─► link.measured
    answered pings ───────────────────► │
    the next stream of the same link ─► ┘

A Meter lives as long as whoever reports it, a Receipts as long as one stream. Everything is
measured where it arrives: what a sender believes to have sent lies in buffers for seconds. Counted
are the bytes of messages, without what HTTP/2, TLS and TCP add. No sockets; the clock is given.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from chaoslab.core.events import Json

PING_S = 0.25
"""How often each end pings."""
MEASURE_S = 1.0
"""How often each end reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One window, from the last reading to this one."""

    window_s: float
    silent_s: float
    """Since anything arrived, even if it began before the window."""
    rtts_s: tuple[float, ...]
    """Of the pings that were answered in the window."""
    probe_rtts_s: tuple[float, ...]
    """Likewise, of those on a connection of their own; a learner's end alone has one."""
    pings_sent: int
    bytes: int
    """Of everything that has arrived so far."""
    payload_bytes: int
    """Of the payloads that were completed in the window."""
    timed_bytes: int
    """Payload bytes that arrived in the window …"""
    timed_s: float
    """… and the time for which they were awaited, from the chunk before them or from the message
    that announced them: together the rate at which the link carries while it is full."""

    @property
    def bytes_per_s(self) -> float | None:
        """How fast payloads arrived while they did; None if no chunk came."""
        return self.timed_bytes / self.timed_s if self.timed_bytes and self.timed_s > 0 else None

    def data(self) -> Mapping[str, Json]:
        """What link.measured carries, beside whose link it is."""
        rtts_s, probe_rtts_s = self.rtts_s, self.probe_rtts_s
        return {
            "window_s": round(self.window_s, 6),
            "silent_s": round(self.silent_s, 6),
            "rtt_s": round(median(rtts_s), 6) if rtts_s else None,
            "rtt_s_min": round(min(rtts_s), 6) if rtts_s else None,
            "rtt_s_max": round(max(rtts_s), 6) if rtts_s else None,
            "pings_sent": self.pings_sent,
            "pings_answered": len(rtts_s),
            "probe_rtt_s": round(median(probe_rtts_s), 6) if probe_rtts_s else None,
            "probe_rtt_s_min": round(min(probe_rtts_s), 6) if probe_rtts_s else None,
            "probes_answered": len(probe_rtts_s),
            "bytes": self.bytes,
            "payload_bytes": self.payload_bytes,
            "bytes_per_s": None if self.bytes_per_s is None else round(self.bytes_per_s, 1),
            "timed_bytes": self.timed_bytes,
            "timed_s": round(self.timed_s, 6),
        }


_RTTS_MOST = 256
"""Round trips kept in one window, in case nobody reads."""


class Meter:
    """Adds up, for all streams of one link. Its methods may be called from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._arrived_s = now()
        self._bytes = 0
        self._begin(self._arrived_s)

    def _begin(self, now_s: float) -> None:
        self._began_s = now_s
        self._rtts_s: deque[float] = deque(maxlen=_RTTS_MOST)
        self._probe_rtts_s: deque[float] = deque(maxlen=_RTTS_MOST)
        self._pings = 0
        self._payload_bytes = 0
        self._timed_bytes, self._timed_s = 0, 0.0

    def arrived(self, now_s: float, size_bytes: int) -> None:
        """A frame came in."""
        with self._lock:
            self._arrived_s = now_s
            self._bytes += size_bytes

    def take_over(self, other: "Meter") -> None:
        """What arrived at another meter arrived here."""
        with other._lock:  # noqa: SLF001  # of the same class
            size_bytes, arrived_s = other._bytes, other._arrived_s  # noqa: SLF001
        with self._lock:
            self._bytes += size_bytes
            if size_bytes:
                self._arrived_s = max(self._arrived_s, arrived_s)

    def transferred(self, size_bytes: int, took_s: float) -> None:
        """So many payload bytes came in this long after the chunk before them."""
        with self._lock:
            self._timed_bytes += size_bytes
            self._timed_s += took_s

    def completed(self, payload_bytes: int) -> None:
        """A payload is complete."""
        with self._lock:
            self._payload_bytes += payload_bytes

    def pinged(self) -> None:
        """A ping left."""
        with self._lock:
            self._pings += 1

    def answered(self, rtt_s: float) -> None:
        """A ping was answered after this time."""
        with self._lock:
            self._rtts_s.append(rtt_s)

    def probed(self, rtt_s: float) -> None:
        """A ping on a connection of its own was answered after this time; see `probe`."""
        with self._lock:
            self._probe_rtts_s.append(rtt_s)

    def read(self) -> Reading:
        """End the window and begin the next."""
        with self._lock:
            now_s = self.now()
            reading = Reading(
                window_s=now_s - self._began_s,
                silent_s=max(0.0, now_s - self._arrived_s),
                rtts_s=tuple(self._rtts_s),
                probe_rtts_s=tuple(self._probe_rtts_s),
                pings_sent=self._pings,
                bytes=self._bytes,
                payload_bytes=self._payload_bytes,
                timed_bytes=self._timed_bytes,
                timed_s=self._timed_s,
            )
            self._begin(now_s)
            return reading


class Receipts:
    """Times the payloads of one stream as their chunks come in. For the thread that reads it."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._filled: int | None = None
        self._chunk_s = 0.0

    def frame(self, size_bytes: int, *, filled: int | None, completed: int) -> None:
        """A frame came in just now.

        `filled`: bytes of the payload that is on its way, None without one, 0 when it was
        announced. `completed`: the size of the payload that this frame completed, 0 if it did not.
        """
        meter, now_s = self.meter, self.meter.now()
        meter.arrived(now_s, size_bytes)
        reached = completed or filled or 0
        if self._filled is not None and reached > self._filled:
            meter.transferred(reached - self._filled, now_s - self._chunk_s)
        if self._filled is None or reached > self._filled:
            self._chunk_s = now_s
        self._filled = filled
        if completed:
            meter.completed(completed)


class Every:
    """Says when a period has passed. What comes late does not make the next come sooner."""

    def __init__(self, period_s: float, now_s: float) -> None:
        self._period_s = period_s
        self.due_s = now_s + period_s

    def is_due(self, now_s: float) -> bool:
        """Whether it is time; then the next period begins."""
        if now_s < self.due_s:
            return False
        self.due_s = max(self.due_s + self._period_s, now_s + self._period_s / 2)
        return True
