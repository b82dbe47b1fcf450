"""A learner's end of one simulated stream, for one use: `diloco.learner.link.Connection`.

open ─► connected, or refused ─► send ─► Stream ─► hear ─► next_arrival ─► Link
                                  silence, as gRPC's keepalive sees it ─► Closed ──┘
"""

from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeAlias, cast

from chaoslab.core.link_meter import Meter, Queued
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes, Closed, Received, StreamEvent
from chaoslab.sim.process import Process
from chaoslab.sim.waits import Wakeable, drive, work
from chaoslab.sim.wires import SILENT_S, Party, Stream, Wire, ping

_REFUSED = "unavailable: failed to connect to all addresses; Connection refused"
_SILENT = "unavailable: ping timeout"


_Unsent: TypeAlias = tuple[
    pb.FromLearner, Bytes | Callable[[], Bytes], Callable[[], Coroutine[Any, Any, None]] | None
]


class Connection:
    """One stream of a learner; a `wires.Party` for its process."""

    def __init__(self, process: Process, party: Party) -> None:
        self._process, self._party = process, party
        self._wire: Wire = process.world.network.wire(process.name)
        self._stream: Stream | None = None
        self._unsent: list[tuple[Received[pb.FromLearner], int | None, bool]] = []
        """What was sent before it was connected."""
        self._outbox: dict[Hashable, _Unsent] = {}
        """Payloads that were not begun, by key."""
        self._is_sending = False
        self._arrivals: deque[StreamEvent[pb.ToLearner]] = deque()
        self._waiting = Wakeable(process)
        self._is_over = False
        self._silent_s = SILENT_S
        self.pings = _Pings(process, self)
        """See `link.Connection`."""

    def open(self, within_s: float | None = None) -> None:
        """See `link.Connection`."""
        self._silent_s = within_s or SILENT_S
        self._process.later(self._process.world.costs.connect_s, self._connect)

    def send(self, message: pb.FromLearner, *, key: Hashable | None = None) -> None:  # noqa: ARG002
        """See `link.Connection`; an older one with this key is on its way already."""
        self._put(Received(message, None), None, is_bulk=False)

    def send_payload(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        *,
        key: Hashable,
        midway: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """See `link.Connection`: one after the other; an unsent one is replaced by the next."""
        self._outbox[key] = message, payload, midway
        if not self._is_sending:
            self._is_sending = True
            drive(self._send_payloads())

    async def _send_payloads(self) -> None:
        while self._outbox:
            message, payload, midway = self._outbox.pop(next(iter(self._outbox)))
            seconds = self._takes_s(message)
            if seconds:
                await work(self._process, seconds)
            made = payload() if callable(payload) else payload
            if midway is not None:
                await midway()
            if made:
                received = Received(message, cast("memoryview", made))
                is_bulk = message.WhichOneof("body") == "checkpoint"
                self._put(received, len(made), is_bulk=is_bulk)
            else:
                self.send(message)
        self._is_sending = False

    def _takes_s(self, message: pb.FromLearner) -> float:
        """Until a payload is made: copied from the device, and encoded."""
        if message.WhichOneof("body") == "checkpoint":
            return self._process.takes(self._process.world.costs.pack_s)
        return self._process.round_work_s("push_s") if message.push.c_steps else 0.0

    def close(self, final_message: pb.FromLearner | None = None) -> None:
        """See `link.Connection`."""
        if self._stream is not None and not self._is_over:
            if final_message is not None:
                self.send(final_message)
            self._stream.close_below("the learner closed the stream")
        self._is_over = True

    def abandon(self) -> None:
        """The process is gone: the kernel closes its sockets."""
        self._is_over = True
        if self._stream is not None:
            self._stream.close_below("unavailable: Socket closed")

    async def next_arrival(self, wait_s: float) -> StreamEvent[pb.ToLearner] | None:
        """See `link.Connection`."""
        if not self._arrivals:
            await self._waiting.wait(wait_s)
        if not self._arrivals:
            return None
        event = self._arrivals.popleft()
        if isinstance(event, Received) and event.message.WhichOneof("body") == "fragment":
            await work(self._process, self._process.world.costs.adopt_s)
        return event

    # ---------------------------------------------------------------- the network's side

    def hear(self, stream: Stream, message: Received[pb.ToLearner]) -> None:
        """A message of the syncer."""
        if stream is self._stream and not self._is_over:
            self._silent_s = SILENT_S
            self._arrive(message)

    def lose(self, stream: Stream, reason: str) -> None:
        """The stream has ended."""
        if stream is self._stream and not self._is_over:
            self._is_over = True
            self._arrive(Closed(reason))

    def _connect(self) -> None:
        world, syncer = self._process.world, self._process.world.syncer
        if self._is_over:
            return
        if self._wire.refused_by or syncer is None:
            self._is_over = True
            self._arrive(Closed(_REFUSED))
            return
        self._stream = world.network.open(self._wire, self._party, syncer)
        self._stream.below.meter = self.pings.meter
        syncer.accept(self._stream)
        unsent, self._unsent = self._unsent, []
        for message, size_bytes, is_bulk in unsent:
            self._put(message, size_bytes, is_bulk=is_bulk)

    def _put(
        self, message: Received[pb.FromLearner], size_bytes: int | None, *, is_bulk: bool
    ) -> None:
        if self._is_over:
            return
        if self._stream is None:
            self._unsent.append((message, size_bytes, is_bulk))
        elif size_bytes is None:
            self._stream.up(message)
        else:
            self._stream.up(message, size_bytes, is_bulk=is_bulk)

    def _arrive(self, event: StreamEvent[pb.ToLearner]) -> None:
        self._arrivals.append(event)
        self._waiting.wake()

    # ---------------------------------------------------------------- pings

    @property
    def queued(self) -> int:
        """Number of messages on their way."""
        return self._wire.up.waiting

    def ping(self) -> None:
        """Ping, and end the stream if nothing was heard for too long."""
        stream = self._stream
        if stream is None or self._is_over:
            return
        now_s = self._process.now_s
        ping(now_s, stream, is_up=True)
        if now_s - stream.below.heard_s >= self._silent_s:
            stream.close_below(_SILENT)
            self.lose(stream, _SILENT)

    def measure_by(self, meter: Meter) -> None:
        """Measure the stream by this meter."""
        if self._stream is not None:
            self._stream.below.meter = meter


class _Pings:
    """See `StreamPings`."""

    def __init__(self, process: Process, connection: Connection) -> None:
        self._connection = connection
        self.meter = Meter(process.clock.now_s)

    @property
    def queue(self) -> Queued:
        """See `StreamPings`."""
        return {"queued": self._connection.queued, "queued_bytes": 0}

    def ping(self) -> None:
        """See `StreamPings`."""
        self._connection.ping()

    def use_meter(self, meter: Meter) -> None:
        """See `StreamPings`."""
        meter.take_over(self.meter)
        self.meter = meter
        self._connection.measure_by(meter)
