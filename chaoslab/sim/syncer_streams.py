"""The syncer's end of simulated streams: `diloco.syncer.sessions.Streams`, without gRPC.

    Stream ─ hear, lose ─► arrivals ─► next_arrival ─► Syncer ─ send, close ─► Stream

A session has the number of its stream.
"""

from collections import deque
from collections.abc import Hashable

from chaoslab.core.link_meter import PING_S, Meter, Queued
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.identity import Refusals
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Received, StreamPings
from chaoslab.sim.process import Process
from chaoslab.sim.waits import Wakeable
from chaoslab.sim.wires import SILENT_S, Stream, ping


class SyncerStreams:
    """All streams of one life of the syncer."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._open: dict[int, Stream] = {}
        self._arrivals: deque[Arrival[pb.FromLearner]] = deque()
        self._waiting = Wakeable(process)
        self.refusals = Refusals()
        """See `Streams`; nobody is refused here before its hello."""
        process.every(PING_S, self._end_silent)

    def wake(self) -> None:
        """Something is to be done."""
        self._waiting.wake()

    # ---------------------------------------------------------------- the network's side

    def accept(self, stream: Stream) -> None:
        """Accept a stream, whose hello follows."""
        self._open[stream.number] = stream

    def hear(self, stream: Stream, message: Received[pb.FromLearner]) -> None:
        """A message of a learner."""
        self._put(Arrival(stream.number, message))

    def lose(self, stream: Stream, reason: str) -> None:
        """A stream has ended."""
        if self._open.pop(stream.number, None) is not None:
            self._put(Arrival(stream.number, Closed(reason)))

    def close_all(self, reason: str) -> None:
        """The process is gone."""
        for stream in tuple(self._open.values()):
            stream.close_above(reason)

    def _put(self, arrival: Arrival[pb.FromLearner]) -> None:
        self._arrivals.append(arrival)
        self._waiting.wake()

    def _end_silent(self) -> None:
        """As gRPC's keepalive does."""
        for stream in tuple(self._open.values()):
            if self._process.now_s - stream.above.heard_s >= SILENT_S:
                reason = "unavailable: ping timeout"
                stream.close_above(reason)
                self.lose(stream, reason)

    # ---------------------------------------------------------------- the syncer's side

    async def next_arrival(self, wait_s: float) -> Arrival[pb.FromLearner] | None:
        """See `Streams`."""
        if not self._arrivals:
            await self._waiting.wait(wait_s)
        return self._arrivals.popleft() if self._arrivals else None

    def admit(self, session: int, payload_bytes_max: int | None = None) -> None:
        """See `Streams`; no payload is too large."""

    def send(self, session: int, message: pb.ToLearner) -> None:
        """See `Streams`."""
        if (stream := self._open.get(session)) is not None:
            stream.down(Received(message, None))

    def send_payload(
        self,
        session: int,
        message: pb.ToLearner,
        payload: memoryview,
        *,
        key: Hashable,  # noqa: ARG002 - nothing is replaced: a pipe has no outbox
    ) -> None:
        """See `Streams`."""
        if (stream := self._open.get(session)) is not None:
            stream.down(Received(message, payload), len(payload))

    def close(self, session: int, final_message: pb.ToLearner | None = None) -> None:
        """See `Streams`. What the learner learns of it by its own end is not told to the syncer."""
        stream = self._open.pop(session, None)
        if stream is None:
            return
        if final_message is not None:
            stream.down(Received(final_message, None))
        stream.close_above("the syncer closed the stream")
        self._put(Arrival(session, Closed("closed here")))

    def pings(self, session: int) -> StreamPings | None:
        """See `Streams`."""
        stream = self._open.get(session)
        return None if stream is None else _Pings(self._process, stream)


class _Pings:
    """See `StreamPings`."""

    def __init__(self, process: Process, stream: Stream) -> None:
        self._process, self._stream = process, stream

    @property
    def meter(self) -> Meter:
        """See `StreamPings`."""
        return self._stream.above.meter

    @property
    def queue(self) -> Queued:
        """See `StreamPings`."""
        return {"queued": self._stream.wire.down.waiting, "queued_bytes": 0}

    def ping(self) -> None:
        """See `StreamPings`."""
        ping(self._process.clock.time_s, self._stream, is_up=False)

    def use_meter(self, meter: Meter) -> None:
        """See `StreamPings`."""
        meter.take_over(self.meter)
        self._stream.above.meter = meter
