"""Pings of one end of a stream, and answers to those of the other end.

    ping ─► Outbox ── Ping ──► the other end's reader ─► its Outbox ── Pong ──► reader ─► Meter

A ping is stamped when it is sent and answered by the reader thread. So a round trip does not
include time in which a thread merges or trains, nor payloads that wait in an outbox; it includes
the buffers between the two. Unsent pings and pongs are replaced by newer ones, so a frozen link
holds one of each.
"""

import math
from typing import Generic

from chaoslab.core.link_meter import Meter, PayloadTimer, Queued
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import frame_of
from chaoslab.diloco.wire.mailbox import M, Outbox


class Pings(Generic[M]):
    """Ping and pong of one end of one stream. `meter` may be exchanged while the stream is open."""

    def __init__(self, envelope: type[M], outbox: Outbox, meter: Meter | None = None) -> None:
        self._envelope: type[M] = envelope
        self._outbox = outbox
        self.timer = PayloadTimer(meter or Meter())
        """Records every received frame."""

    @property
    def meter(self) -> Meter:
        """Meter that receives the measurements."""
        return self.timer.meter

    def use_meter(self, meter: Meter) -> None:
        """Send measurements to this meter from now on; earlier arrivals are added to it."""
        meter.take_over(self.meter)
        self.timer.meter = meter

    @property
    def queue(self) -> Queued:
        """What waits in the outbox."""
        return {"queued": sum(self._outbox.waiting), "queued_bytes": self._outbox.waiting_bytes}

    def ping(self) -> None:
        """Queue a ping; its round trip goes to the meter."""
        self._outbox.put(self._ping, "ping")

    def handle(self, message: pb.FromLearner | pb.ToLearner) -> bool:
        """Handle a ping or pong; False if the message is neither."""
        body = message.WhichOneof("body")
        if body == "ping":
            sent_s, came_s = message.ping.sent_s, self.meter.now()
            self._outbox.put(lambda: self._pong(sent_s, came_s), "pong")
            return True
        if body == "pong":
            rtt_s = self.meter.now() - message.pong.sent_s - message.pong.held_s
            if math.isfinite(rtt_s):
                self.meter.answered(max(0.0, rtt_s))
            return True
        return False

    def _ping(self) -> bytes:
        self.meter.pinged()
        return frame_of(self._envelope(ping=pb.Ping(sent_s=self.meter.now())))

    def _pong(self, sent_s: float, came_s: float) -> bytes:
        pong = pb.Pong(sent_s=sent_s, held_s=self.meter.now() - came_s)
        return frame_of(self._envelope(pong=pong))
