"""The pings of one end of a stream, and its answers to the other's.

    ping ─► Outbox ── Ping ──► the other end's reader ─► its Outbox ── Pong ──► reader ─► Meter

A ping is stamped when it leaves and answered by the reading thread: a round trip tells of the link
and not of a thread that is busy merging or training, nor of payloads that wait at either end. What
lies in the buffers between is part of the link. Unsent pings and pongs are replaced by newer ones,
so a frozen link holds one of each.
"""

import math
from collections.abc import Mapping
from typing import Generic

from chaoslab.core.events import Json
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import M, frame_of
from chaoslab.diloco.wire.link_meter import Meter, Receipts
from chaoslab.diloco.wire.mailbox import Outbox


class Pulse(Generic[M]):
    """One end of one stream. `meter` may be exchanged while the stream goes on."""

    def __init__(self, envelope: type[M], outbox: Outbox, meter: Meter | None = None) -> None:
        self._envelope: type[M] = envelope
        self._outbox = outbox
        self.receipts = Receipts(meter or Meter())

    @property
    def meter(self) -> Meter:
        """Where everything is added up."""
        return self.receipts.meter

    def goes_to(self, meter: Meter) -> None:
        """From now on this meter adds up; what has arrived so far is added to it."""
        meter.take_over(self.meter)
        self.receipts.meter = meter

    @property
    def queue(self) -> Mapping[str, Json]:
        """What waits here to be sent, as link.measured carries it."""
        return {"queued": sum(self._outbox.waiting), "queued_bytes": self._outbox.waiting_bytes}

    def ping(self) -> None:
        """Ask for a sign of life; the answer goes to the meter."""
        self._outbox.put(self._ping, "ping")

    def frame(self, size_bytes: int, *, filled: int | None, completed: int) -> None:
        """A frame came in; see `Receipts.frame`."""
        self.receipts.frame(size_bytes, filled=filled, completed=completed)

    def takes(self, message: pb.FromLearner | pb.ToLearner) -> bool:
        """Whether a message is a ping or a pong; then it has been dealt with."""
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
