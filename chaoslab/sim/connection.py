"""A simulated learner's end of its link: it dials, measures, and comes back after a pause.

    dial ─► hello ─► messages ─► the stream ends ─► pause with backoff ─► not before a step is made

As `diloco.learner.link` does; its `Learner` handles the messages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaoslab.core.link_meter import MEASURE_S, PING_S, Meter
from chaoslab.core.payloads import LinkClosed, LinkMeasured, LinkOpened, Payload
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Received
from chaoslab.sim.chance import Chance
from chaoslab.sim.messages import Values, as_bytes
from chaoslab.sim.process import Process
from chaoslab.sim.wires import SILENT_S, Party, Stream, ping

_HEARTBEATS = 2
"""Pings between two repetitions of the counters."""
_MEASURES = round(MEASURE_S / PING_S)
_SOUND_S = 1.0
"""Shortest life of a stream that resets the backoff."""
_REFUSED = "unavailable: failed to connect to all addresses; Connection refused"


class Backoff:
    """Delays between dials, as `diloco.wire.streams.Backoff` draws them."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._first_s, self._cap_s = 0.2, 5.0
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Seconds to wait before the next attempt."""
        most_s, self._next_s = self._next_s, min(2 * self._next_s, self._cap_s)
        return most_s * self._chance.uniform(0.1, 1.0)

    def reset(self) -> None:
        """Begin again with the shortest."""
        self._next_s = self._first_s

    def spread(self, crowd: int) -> None:
        """Widen the range for this many learners."""
        needed_s = crowd / 100.0
        self._first_s, self._cap_s = max(self._first_s, needed_s), max(self._cap_s, 2 * needed_s)
        self._next_s = max(self._next_s, self._first_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """Callbacks of the connection."""

    hello: Callable[[], pb.FromLearner]
    hear: Callable[[Received[pb.ToLearner]], str | None]
    """A reason if the stream must end because of the message."""
    repeat: Callable[[], None]
    end: Callable[[str], None]
    is_waiting: Callable[[], bool]
    """Whether the training thread makes no step yet, so that the next dial waits for none."""


class Connection:
    """The link of one life of a learner; a `wires.Party` for its process."""

    def __init__(self, process: Process, party: Party, handlers: Handlers) -> None:
        self._process, self._party, self._handlers = process, party, handlers
        self._wire = process.world.network.wire(process.name)
        self.meter = Meter(process.clock.now_s)
        self.backoff = Backoff(
            Chance(process.world.seed, "backoff", process.name, process.incarnation)
        )
        self.stream: Stream | None = None
        self._attempts = self._ticks = 0
        self._alone_s = process.now_s
        self._opened_s: float | None = None
        self._pause_s = 0.0
        self._may_dial, self._has_rested, self._is_closing = False, False, False

    def start(self) -> None:
        """Begin to connect, and to measure."""
        self._process.every(PING_S, self._tick)
        self._dial()

    def allow(self) -> None:
        """The training thread has made a step: another dial may follow."""
        self._may_dial = True
        if self._has_rested:
            self._has_rested = False
            self._dial()

    def send(
        self, message: pb.FromLearner, payload: Values | None = None, *, is_bulk: bool = False
    ) -> None:
        """Send it, or lose it if there is no stream; others pass one that is bulk."""
        if self.stream is None:
            return
        if payload is None:
            self.stream.up(Received(message, None))
        else:
            received = Received(message, as_bytes(payload))
            self.stream.up(received, payload.size_bytes, is_bulk=is_bulk)

    def close(self, last: pb.FromLearner) -> None:
        """Send a last message and end."""
        self._is_closing = True
        if self.stream is not None:
            self.send(last)
            self.stream.close_below("the learner left")
            self.stream = None

    def abandon(self) -> None:
        """The process is gone: the kernel closes its sockets."""
        self._is_closing = True
        if self.stream is not None:
            self.stream.close_below("unavailable: Socket closed")
            self.stream = None

    # ---------------------------------------------------------------- streams

    def _dial(self) -> None:
        self._attempts += 1
        self._process.later(self._process.world.costs.connect_s, self._connect)

    def _connect(self) -> None:
        world, process = self._process.world, self._process
        syncer = world.syncer
        if self._is_closing:
            return
        if self._wire.refused_by or syncer is None:
            self._note_end(_REFUSED, was_open=False)
            return
        self.stream = world.network.open(self._wire, self._party, syncer)
        self.stream.below.meter = self.meter
        self._opened_s = None
        self.stream.below.heard_s = process.now_s
        syncer.accept(self.stream)
        self.send(self._handlers.hello())

    def hear(self, stream: Stream, message: Received[pb.ToLearner]) -> None:
        """A message of the syncer."""
        self._process.do(lambda: self._receive(stream, message))

    def _receive(self, stream: Stream, message: Received[pb.ToLearner]) -> None:
        if stream is not self.stream:
            return
        if self._opened_s is None:
            self._opened_s = self._process.now_s
            after_s = round(self._opened_s - self._alone_s, 6)
            self._say(LinkOpened, attempts=self._attempts, after_s=after_s)
        ended = self._handlers.hear(message)
        if ended:
            stream.close_below(ended)
            self.lose(stream, ended)

    def lose(self, stream: Stream, reason: str) -> None:
        """The stream is over."""
        if stream is not self.stream or self._is_closing:
            return
        self.stream = None
        self._handlers.end(reason)
        self._note_end(reason, was_open=self._opened_s is not None)

    def _note_end(self, reason: str, *, was_open: bool) -> None:
        now_s = self._process.now_s
        open_s = now_s - self._opened_s if was_open and self._opened_s is not None else 0.0
        self._say(
            LinkClosed,
            was_open=was_open,
            open_s=round(open_s, 6),
            attempts=self._attempts,
            reason=reason,
        )
        if was_open:
            self._alone_s, self._attempts = now_s, 0
        if open_s >= max(_SOUND_S, self._pause_s):
            self.backoff.reset()
        self._may_dial = False
        self._pause_s = self.backoff.next_s()
        self._process.later(self._pause_s, self._rested)

    def _rested(self) -> None:
        if self._is_closing:
            return
        if self._may_dial or self._handlers.is_waiting():
            self._dial()
        else:
            self._has_rested = True

    # ---------------------------------------------------------------- reports

    def _tick(self) -> None:
        now_s, stream = self._process.now_s, self.stream
        self._ticks += 1
        self._probe()
        if stream is not None:
            ping(now_s, stream, is_up=True)
            if now_s - stream.below.heard_s >= SILENT_S:
                reason = "unavailable: ping timeout"
                stream.close_below(reason)
                self.lose(stream, reason)
            elif not self._ticks % _HEARTBEATS:
                self._handlers.repeat()
        if not self._ticks % _MEASURES:
            measured = self.meter.read().data()
            queued = self._wire.up.waiting
            self._say(LinkMeasured, direction="down", **measured, queued=queued, queued_bytes=0)

    def _probe(self) -> None:
        syncer = self._process.world.syncer
        is_reached = syncer is not None and syncer.answers and not self._wire.refused_by
        rtt_s = self._wire.round_trip_s(beside=True) if is_reached else None
        if rtt_s is not None:
            self.meter.probed(rtt_s)

    def _say(self, said: type[Payload], /, **fields: Any) -> None:
        process = self._process
        process.say(said, learner=process.name, incarnation=process.incarnation, **fields)
