"""Measurements of a simulated link at one end: what `link.measured` reports of a window.

A message counts as a whole when it has arrived; `core.link_meter` measures real ones, by frames.
"""

from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.core.link_meter import Reading
from chaoslab.sim.pipe import Packet

_TIMED = 0.75
"""Timed share of a payload: a receiver times from its first chunk on, of at least four."""


class Meter:
    """What arrives at one end of a link."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self.heard_s = now_s
        self._bytes = 0
        self._window = Reading()

    def hear(self, now_s: float, size_bytes: int) -> None:
        """Something has arrived."""
        self.heard_s = now_s if now_s > self.heard_s else self.heard_s
        self._bytes += size_bytes

    def take(self, now_s: float, packet: Packet, *, is_payload: bool) -> None:
        """A message has arrived."""
        self.hear(now_s, packet.size_bytes)
        if is_payload:
            self._window.payload_bytes += packet.size_bytes
            self._window.timed_bytes += int(_TIMED * packet.size_bytes)
            self._window.timed_s += _TIMED * packet.took_s

    def ping(self, rtt_s: float | None) -> None:
        """A ping was sent; it was answered after this long, or never."""
        self._window.pings_sent += 1
        if rtt_s is not None:
            self._window.rtts_s.append(rtt_s)

    def probe(self, rtt_s: float) -> None:
        """A ping on a connection of its own was answered."""
        self._window.probe_rtts_s.append(rtt_s)

    def read(self, now_s: float) -> Mapping[str, Json]:
        """Data of link.measured; the next window begins."""
        reading, self._window = self._window, Reading()
        reading.window_s = now_s - self._since_s
        reading.silent_s = max(0.0, now_s - self.heard_s)
        reading.bytes = self._bytes
        self._since_s = now_s
        return reading.data()
