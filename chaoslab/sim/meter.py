"""Measurements of a simulated link at one end: what `link.measured` reports.

As `core.link_meter`: a window of bytes, round trips of pings, and the rate of payloads.
"""

from collections.abc import Mapping
from statistics import median

from chaoslab.core.events import Json
from chaoslab.sim.pipe import Packet

PING_S = 0.25
"""Between two pings of one end, as `core.link_meter` has it."""
MEASURE_S = 1.0
"""Between two reports of one end, likewise."""
_TIMED = 0.75
"""Of a payload: a receiver times it from its first chunk on, and cuts it into at least four."""


class Meter:
    """What arrives at one end of a link, as `core.link_meter` measures it."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self.heard_s = now_s
        self._bytes = 0
        self._payload_bytes = 0
        self._timed_bytes = 0
        self._timed_s = 0.0
        self._sent = 0
        self._rtts_s: list[float] = []
        self._probes_s: list[float] = []

    def hear(self, now_s: float, size_bytes: int) -> None:
        """Something has arrived."""
        self.heard_s = now_s if now_s > self.heard_s else self.heard_s
        self._bytes += size_bytes

    def take(self, now_s: float, packet: Packet, *, is_payload: bool) -> None:
        """A message has arrived."""
        self.hear(now_s, packet.size_bytes)
        if is_payload:
            self._payload_bytes += packet.size_bytes
            self._timed_bytes += int(_TIMED * packet.size_bytes)
            self._timed_s += _TIMED * packet.took_s

    def ping(self, rtt_s: float | None) -> None:
        """A ping was sent; it was answered after this long, or never."""
        self._sent += 1
        if rtt_s is not None:
            self._rtts_s.append(rtt_s)

    def probe(self, rtt_s: float) -> None:
        """A ping on a connection of its own was answered."""
        self._probes_s.append(rtt_s)

    def read(self, now_s: float) -> Mapping[str, Json]:
        """Data of link.measured; the next window begins."""
        timed, rtts_s, probes_s = self._timed_bytes, self._rtts_s, self._probes_s
        data: dict[str, Json] = {
            "window_s": round(now_s - self._since_s, 6),
            "silent_s": round(max(0.0, now_s - self.heard_s), 6),
            "rtt_s": round(median(rtts_s), 6) if rtts_s else None,
            "rtt_s_min": round(min(rtts_s), 6) if rtts_s else None,
            "pings_sent": self._sent,
            "pings_answered": len(rtts_s),
            "probe_rtt_s": round(median(probes_s), 6) if probes_s else None,
            "probe_rtt_s_min": round(min(probes_s), 6) if probes_s else None,
            "probes_answered": len(probes_s),
            "bytes": self._bytes,
            "payload_bytes": self._payload_bytes,
            "bytes_per_s": round(timed / self._timed_s, 1) if timed and self._timed_s else None,
            "timed_bytes": timed,
            "timed_s": round(self._timed_s, 6),
        }
        self._since_s, self._sent, self._rtts_s, self._probes_s = now_s, 0, [], []
        self._payload_bytes = self._timed_bytes = 0
        self._timed_s = 0.0
        return data
