"""Simulated links end to end: two pipes for each learner, and the streams that run over them.

    learner ── dial ─► Stream ── up ───► Pipe ───► syncer        Meter: what arrives at one end
            ◄────────────────── Pipe ◄── down ────┘

A stream has two ends, and each learns by itself that it is over: by a last packet of the other end,
by a fault that tells it, or because nothing arrived for as long as gRPC's keepalive waits.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from chaoslab.core.link_meter import Meter
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.links.effects import Direction, Effect, HalfOpen, Refuse, Reset
from chaoslab.sim.pipe import Packet, Pipe

SILENT_S = 10.0
"""Silence after which an end breaks the stream off: `Limits.keepalive_s + answer_s`."""
CONTROL_BYTES = 100
"""Bytes of a message without payload."""
_PING_BYTES = 31
"""Bytes of a ping or its answer, with its frame."""
_TIMED = 0.75
"""Timed share of a payload: a receiver times from its first chunk on, of at least four."""


class Party(Protocol):
    """A process at one end of streams."""

    @property
    def answers(self) -> bool:
        """Whether it lives and is not stopped: it answers pings."""
        ...

    def hear(self, stream: "Stream", message: Received[Any]) -> None:
        """A message has arrived."""
        ...

    def lose(self, stream: "Stream", reason: str) -> None:
        """The stream is over at this end."""
        ...


class Listener(Party, Protocol):
    """The process that learners dial."""

    def accept(self, stream: "Stream") -> None:
        """Accept a stream, whose hello follows."""
        ...


@dataclass(slots=True)
class End:
    """What arrives at one end of a stream."""

    meter: Meter
    heard_s: float = 0.0
    """Time at which something did last."""

    def take(self, packet: Packet, *, is_payload: bool) -> None:
        """A message has arrived, as a whole; `core.link_meter` measures real ones by frames."""
        now_s, size_bytes = packet.arrive_s, packet.size_bytes
        self.heard_s = now_s if now_s > self.heard_s else self.heard_s
        if is_payload:
            self.meter.arrived(
                now_s,
                size_bytes,
                timed_bytes=int(_TIMED * size_bytes),
                timed_s=_TIMED * packet.took_s,
                payload_bytes=size_bytes,
            )
        else:
            self.meter.arrived(now_s, size_bytes)

    def hear(self, now_s: float) -> None:
        """A ping has arrived, or the answer to one."""
        self.heard_s = now_s if now_s > self.heard_s else self.heard_s
        self.meter.arrived(self.heard_s, _PING_BYTES)


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """One stream of a learner. Messages to an end that is closed are lost."""

    number: int
    wire: "Wire"
    learner: Party
    syncer: Party
    is_open_below: bool = True
    """Whether it is open at the learner."""
    is_open_above: bool = True
    """Whether it is open at the syncer."""
    is_cut: bool = False
    """Whether its connection is forgotten on the way: nothing passes."""
    below: End
    """At the learner."""
    above: End
    """At the syncer."""

    def up(
        self, message: Received[Any], size_bytes: int = CONTROL_BYTES, *, is_bulk: bool = False
    ) -> None:
        """Send to the syncer."""
        if self.is_open_below and not self.is_cut:
            arrive = partial(self._arrive_above, message)
            self.wire.up.send(size_bytes, arrive, is_bulk=is_bulk)

    def down(self, message: Received[Any], size_bytes: int = CONTROL_BYTES) -> None:
        """Send to the learner."""
        if self.is_open_above and not self.is_cut:
            self.wire.down.send(size_bytes, partial(self._arrive_below, message))

    def close_below(self, reason: str) -> None:
        """The learner closes its end; the syncer learns it by a last packet."""
        if self.is_open_below:
            self.is_open_below = False
            if not self.is_cut:
                self.wire.up.send(CONTROL_BYTES, lambda _: self.end_above(reason))
            self.wire.forget(self)

    def close_above(self, reason: str) -> None:
        """The syncer closes its end; the learner learns it by a last packet."""
        if self.is_open_above:
            self.is_open_above = False
            if not self.is_cut:
                self.wire.down.send(CONTROL_BYTES, lambda _: self.end_below(reason))
            self.wire.forget(self)

    def end_below(self, reason: str) -> None:
        """The learner is told that it is over."""
        if self.is_open_below:
            self.is_open_below = False
            self.wire.forget(self)
            self.learner.lose(self, reason)

    def end_above(self, reason: str) -> None:
        """The syncer is told that it is over."""
        if self.is_open_above:
            self.is_open_above = False
            self.wire.forget(self)
            self.syncer.lose(self, reason)

    def _arrive_above(self, message: Received[Any], packet: Packet) -> None:
        if self.is_open_above and not self.is_cut:
            self.above.take(packet, is_payload=message.payload is not None)
            self.syncer.hear(self, message)
            self.wire.look()

    def _arrive_below(self, message: Received[Any], packet: Packet) -> None:
        if self.is_open_below and not self.is_cut:
            self.below.take(packet, is_payload=message.payload is not None)
            self.learner.hear(self, message)
            self.wire.look()


@dataclass(slots=True, kw_only=True)
class Wire:
    """The path between one learner and the syncer."""

    up: Pipe
    down: Pipe
    streams: list[Stream] = field(default_factory=list)
    """Streams with an open end."""
    opened: int = 0
    refused_by: set[str] = field(default_factory=set)
    """Injections that refuse connections."""
    cut_by: dict[str, list[Stream]] = field(default_factory=dict)
    """Streams that an injection left half open."""

    @property
    def connections(self) -> int:
        """Open at the learner."""
        return sum(stream.is_open_below for stream in self.streams)

    def pipes(self, direction: Direction) -> tuple[Pipe, ...]:
        """Pipes of a direction."""
        return tuple(self.up if way is Direction.UP else self.down for way in direction.ways)

    def round_trip_s(self, *, beside: bool = False) -> float | None:
        """Round trip of a ping now, `beside` the stream or behind its payloads; None: no answer."""
        up_s, down_s = self.up.delay_s(), self.down.delay_s()
        if up_s is None or down_s is None:
            return None
        queue_s = 0.0 if beside else self.up.queue_s() + self.down.queue_s()
        return up_s + down_s + queue_s

    def forget(self, stream: Stream) -> None:
        """Once both of its ends are closed."""
        if not (stream.is_open_above or stream.is_open_below) and stream in self.streams:
            self.streams.remove(stream)

    def look(self) -> None:
        """End the streams if a limit of data is reached."""
        if self.up.is_plain and self.down.is_plain:
            return
        if any([self.up.take_limit(), self.down.take_limit()]):
            self.reset()

    # ---------------------------------------------------------------- effects

    def shape(self, injection: str, direction: Direction, effect: Effect) -> None:
        """Put an effect on it."""
        match effect:
            case Reset():
                self.reset()
            case Refuse():
                self.refused_by.add(injection)
                self.reset()
            case HalfOpen():
                self._cut(injection, direction)
            case _:
                for pipe in self.pipes(direction):
                    pipe.shape(injection, effect)

    def clear(self, injection: str) -> None:
        """Take everything of an injection from it; an end that was not told yet is told."""
        self.refused_by.discard(injection)
        for stream in self.cut_by.pop(injection, []):
            stream.end_below(_RESET)
            stream.end_above(_RESET)
        if any([self.up.clear(injection), self.down.clear(injection)]):
            self.reset()

    def reset(self) -> None:
        """All streams end, both ends are told, and what was on its way is lost."""
        self.up.drop()
        self.down.drop()
        for stream in tuple(self.streams):
            stream.end_below(_RESET)
            stream.end_above(_RESET)

    def _cut(self, injection: str, direction: Direction) -> None:
        for stream in tuple(self.streams):
            stream.is_cut = True
            self.cut_by.setdefault(injection, []).append(stream)
            if direction is Direction.UP:
                stream.end_below(_RESET)
            elif direction is Direction.DOWN:
                stream.end_above(_RESET)


_RESET = "unavailable: connection reset by peer"


def ping(now_s: float, stream: Stream, *, is_up: bool) -> None:
    """A ping of one end: the other hears it if it gets there, and answers it if it can.

    Pings are reckoned and not sent: four a second in each direction would be most of all events.
    """
    wire = stream.wire
    near, receiver = wire.down, stream.learner
    own, other = stream.above, stream.below
    if is_up:
        near, receiver = wire.up, stream.syncer
        own, other = other, own
    is_whole = stream.is_open_below and stream.is_open_above and not stream.is_cut
    delay_s = near.delay_s() if is_whole and receiver.answers else None
    rtt_s = None if delay_s is None else wire.round_trip_s()
    if delay_s is not None:
        other.hear(now_s + delay_s + near.queue_s())
    own.meter.pinged()
    if rtt_s is not None:
        own.hear(now_s + rtt_s)
        own.meter.answered(rtt_s)
