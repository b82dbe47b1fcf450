"""A learner's end of its link: a thread that connects, receives, measures and reconnects.

    connect ─► hello ─► receive: messages go to LinkHandlers.receive ────────► the stream ends
     ▲                 └─ pings 4 times a second, link.measured once a second      │
     └─── a pause with backoff and jitter; not before the training thread makes a step ◄──┘

The thread runs until the learner ends; nothing waits for it, and messages are dropped while there
is no stream. Only a stream that lasted longer than the pause before it resets the backoff, so a
link that always breaks is not overloaded. `messenger` handles the messages.

A dial after one that was refused is given up sooner. A host that refuses is near; no answer then
means an address without a server, as that of a dead pod to which a Service of Kubernetes
leads for a second or two, and the next dial finds the right one.
"""

import random
import secrets
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from chaoslab.core.link_meter import MEASURE_S, NOTHING_QUEUED, PING_S, Meter, Periodic
from chaoslab.core.payloads import LifeFields, LinkClosed, LinkMeasured, LinkOpened
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.phases import Phases, Points
from chaoslab.diloco.node.waits import ThreadWaits, Waits
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes, Closed, Received, StreamEvent, StreamPings

_HEARTBEAT_S = 0.5
_SOUND_S = 1.0
"""Shortest life of a stream that resets the backoff, in s."""
_AT_ONCE_S = 1.0
"""A dial that fails within this long was refused."""
_BRIEF_S = 3.0
"""How long the next one waits for an answer."""
_LEAST_SHARE = 0.1
_CROWD_PER_S = 100.0


C = TypeVar("C", bound="Connection")
BeginProbe: TypeAlias = Callable[[Callable[[float], None]], None]
"""Begins to measure round trips on a separate connection, in s each; see `probe`."""


class Connection(Protocol):
    """A learner's end of one stream: `wire.connection`, or of a simulated one."""

    @property
    def pings(self) -> StreamPings: ...
    def open(self, within_s: float | None = None) -> None: ...
    def send(self, message: pb.FromLearner, *, key: Hashable | None = None) -> None: ...
    def send_payload(
        self,
        message: pb.FromLearner,
        payload: Bytes | Callable[[], Bytes],
        *,
        key: Hashable,
        midway: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None: ...
    def close(self, final_message: pb.FromLearner | None = None) -> None: ...
    async def next_arrival(self, wait_s: float) -> StreamEvent[pb.ToLearner] | None:
        """What has arrived first; None if nothing does so long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHandlers(Generic[C]):
    """Callbacks of the link, all called on its thread."""

    hello: Callable[[C], None]
    """A stream was opened: send the hello."""
    hear: Callable[[Received[pb.ToLearner]], str | None]
    """Handle a message; a reason if the stream must end because of it."""
    repeat: Callable[[], None]
    """Called twice a second, to repeat what may have been lost."""
    end: Callable[[str], None]
    """The stream has ended, for this reason."""


class Ambient(NamedTuple):
    """What a messenger and its link take from where they run."""

    waits: Waits
    chance: random.Random
    """Of the pauses before it reconnects."""
    meter: Meter
    """Of the link."""
    process: int
    """Number that no other process of this learner has."""
    phases: Points

    @staticmethod
    def of_process(whose: LifeFields, emit: Emit, phases: Points | None = None) -> "Ambient":
        """That of a real process."""
        return Ambient(
            ThreadWaits(),
            random.Random(f"{whose['learner']}/{whose['incarnation']}"),
            Meter(),
            secrets.randbits(63),
            phases or Phases(emit, {"node": "", **whose}),
        )


class Link(Generic[C]):
    """The link's thread: `start` once, then `close`."""

    def __init__(
        self,
        connect: Callable[[], C],
        handlers: LinkHandlers[C],
        *,
        whose: LifeFields,
        emit: Emit,
        ambient: Ambient,
        probe: BeginProbe | None = None,
    ) -> None:
        self.backoff = Backoff(ambient.chance)
        self._connect = connect
        self._handlers = handlers
        self._probe = probe
        self._whose, self._emit = whose, emit
        self._waits = ambient.waits
        self._closing, self._may_reconnect = self._waits.flag(), self._waits.flag()
        now_s = self._waits.now_s()
        self._meter = ambient.meter
        self._ping, self._measure = Periodic(PING_S, now_s), Periodic(MEASURE_S, now_s)
        self._heartbeat = Periodic(_HEARTBEAT_S, now_s)
        self._connection: C | None = None
        self._alone_s = now_s
        """Time at which the last stream ended, or the link was made."""
        self._attempts = 0
        self._dialled_s = now_s
        self._opened_s: float | None = None
        self._was_refused = False
        self._pause_s = 0.0

    def start(self) -> None:
        """Start the thread, which begins to connect."""
        if self._probe is not None:
            self._probe(self._meter.probed)
        self._waits.begin("link", self._run)

    def allow_reconnect(self) -> None:
        """Allow the next connection: the training thread has made a step."""
        self._may_reconnect.set()

    def close(self, final_message: pb.FromLearner) -> None:
        """Send a last message and end; returns when it was read, at most after `linger_s`."""
        self._closing.set()
        self._may_reconnect.set()
        if self._connection is not None:
            self._connection.close(final_message)

    # ------------------------------------------------------------ the thread

    async def _run(self) -> None:
        while not self._closing.is_set():
            connection = self._connection = self._dial()
            why = await self._listen(connection)
            connection.close()
            if self._closing.is_set():
                return
            self._note_end(why)
            await self._rest()

    def _dial(self) -> C:
        connection = self._connect()
        connection.pings.use_meter(self._meter)
        self._opened_s = None
        self._attempts += 1
        self._dialled_s = self._waits.now_s()
        connection.open(_BRIEF_S if self._was_refused else None)
        self._handlers.hello(connection)
        return connection

    async def _listen(self, connection: C) -> str:
        """Handle messages until the stream ends; return why it ended."""
        while not self._closing.is_set():
            now_s = self._keep_time(connection)
            what = await connection.next_arrival(max(0.0, self._next_s() - now_s))
            if isinstance(what, Closed):
                return what.reason
            if isinstance(what, Received):
                self._note_answer()
                ended = self._handlers.hear(what)
                if ended:
                    return ended
        return "closing"

    async def _rest(self) -> None:
        """Wait until the next connection is due and allowed; measuring continues."""
        self._may_reconnect.clear()
        self._pause_s = self.backoff.next_s()
        until_s = self._waits.now_s() + self._pause_s
        while not self._closing.is_set():
            now_s = self._keep_time(None)
            if now_s < until_s:
                await self._closing.wait(min(until_s, self._measure.due_s) - now_s)
            elif await self._may_reconnect.wait(max(0.0, self._measure.due_s - now_s)):
                return

    # ------------------------------------------------------------ reports

    def _keep_time(self, connection: C | None) -> float:
        """Do what is due: ping, repeat, report; return the time."""
        now_s = self._waits.now_s()
        if connection is not None:
            if self._ping.is_due(now_s):
                connection.pings.ping()
            if self._heartbeat.is_due(now_s):
                self._handlers.repeat()
        if self._measure.is_due(now_s):
            queued = connection.pings.queue if connection else NOTHING_QUEUED
            reading = self._meter.read()
            self._emit(LinkMeasured.of(reading, self._whose, direction="down", queued=queued))
        return now_s

    def _next_s(self) -> float:
        return min(self._ping.due_s, self._heartbeat.due_s, self._measure.due_s)

    def _note_answer(self) -> None:
        """Report the link as open at the first message of a stream."""
        if self._opened_s is None:
            self._opened_s = self._waits.now_s()
            after_s = round(self._opened_s - self._alone_s, 6)
            self._emit(LinkOpened(**self._whose, attempts=self._attempts, after_s=after_s))

    def _note_end(self, why: str) -> None:
        now_s, was_open = self._waits.now_s(), self._opened_s is not None
        open_s = now_s - self._opened_s if self._opened_s is not None else 0.0
        self._was_refused = not was_open and now_s - self._dialled_s < _AT_ONCE_S
        self._handlers.end(why)
        self._emit(
            LinkClosed(
                **self._whose,
                was_open=was_open,
                open_s=round(open_s, 6),
                attempts=self._attempts,
                reason=why,
            )
        )
        if was_open:
            self._alone_s, self._attempts = now_s, 0
        if open_s >= max(_SOUND_S, self._pause_s):
            self.backoff.reset()


class Backoff:
    """Delays between connection attempts: doubling from `first_s` to `cap_s` seconds, with jitter.

    Each is drawn from nearly the whole range, so that learners that lost the syncer at the same
    time spread out. With many learners the range grows: together they make at most about
    `_CROWD_PER_S` attempts a second.
    """

    def __init__(self, chance: random.Random, *, first_s: float = 0.2, cap_s: float = 5.0) -> None:
        self._chance = chance
        self._first_s = first_s
        self._cap_s = cap_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait before the next attempt; the first time at most `first_s`."""
        most_s, self._next_s = self._next_s, min(2 * self._next_s, self._cap_s)
        return most_s * self._chance.uniform(_LEAST_SHARE, 1.0)

    def reset(self) -> None:
        """Begin again with the shortest delay, after a stream that was welcomed."""
        self._next_s = self._first_s

    def spread(self, crowd: int) -> None:
        """Widen the range so that `crowd` learners that reconnect at once stay below the rate."""
        needed_s = crowd / _CROWD_PER_S
        self._first_s, self._cap_s = max(self._first_s, needed_s), max(self._cap_s, 2 * needed_s)
        self._next_s = max(self._next_s, self._first_s)
