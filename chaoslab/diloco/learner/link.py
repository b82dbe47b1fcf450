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

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from chaoslab.core.events import Json
from chaoslab.core.link_meter import MEASURE_S, PING_S, Meter, Periodic
from chaoslab.core.payloads import LinkClosed, LinkMeasured, LinkOpened
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.mailbox import Closed, Received
from chaoslab.diloco.wire.streams import Backoff

_HEARTBEAT_S = 0.5
_SOUND_S = 1.0
"""Shortest life of a stream that resets the backoff, in s."""
_AT_ONCE_S = 1.0
"""A dial that fails within this long was refused."""
_BRIEF_S = 3.0
"""How long the next one waits for an answer."""


BeginProbe: TypeAlias = Callable[[Callable[[float], None]], None]
"""Begins to measure round trips on a separate connection, in s each; see `probe`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHandlers:
    """Callbacks of the link, all called on its thread."""

    hello: Callable[[Connection], None]
    """A stream was opened: send the hello."""
    hear: Callable[[Received[pb.ToLearner]], str | None]
    """Handle a message; a reason if the stream must end because of it."""
    repeat: Callable[[], None]
    """Called twice a second, to repeat what may have been lost."""
    end: Callable[[str], None]
    """The stream has ended, for this reason."""


class Link:
    """The link's thread: `start` once, then `close`."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        handlers: LinkHandlers,
        *,
        emit: Emit,
        chance: random.Random,
        probe: BeginProbe | None = None,
    ) -> None:
        self.backoff = Backoff(chance)
        self._connect = connect
        self._handlers = handlers
        self._probe = probe
        self._emit = emit
        self._closing = threading.Event()
        self._may_reconnect = threading.Event()
        now_s = time.monotonic()
        self._meter = Meter()
        self._ping, self._measure = Periodic(PING_S, now_s), Periodic(MEASURE_S, now_s)
        self._heartbeat = Periodic(_HEARTBEAT_S, now_s)
        self._connection: Connection | None = None
        self._alone_s = now_s
        """Time at which the last stream ended, or the link was made."""
        self._attempts = 0
        self._dialled_s = now_s
        self._opened_s: float | None = None
        self._was_refused = False
        self._pause_s = 0.0
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self) -> None:
        """Start the thread, which begins to connect."""
        if self._probe is not None:
            self._probe(self._meter.probed)
        self._thread.start()

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

    def _run(self) -> None:
        while not self._closing.is_set():
            connection = self._connection = self._dial()
            why = self._listen(connection)
            connection.close()
            if self._closing.is_set():
                return
            self._note_end(why)
            self._rest()

    def _dial(self) -> Connection:
        connection = self._connect()
        connection.pings.use_meter(self._meter)
        self._opened_s = None
        self._attempts += 1
        self._dialled_s = time.monotonic()
        connection.open(_BRIEF_S if self._was_refused else None)
        self._handlers.hello(connection)
        return connection

    def _listen(self, connection: Connection) -> str:
        """Handle messages until the stream ends; return why it ended."""
        while not self._closing.is_set():
            now_s = self._keep_time(connection)
            try:
                arrival = connection.arrivals.get(timeout=max(0.0, self._next_s() - now_s))
            except queue.Empty:
                continue
            what = arrival.event
            if isinstance(what, Closed):
                return what.reason
            if isinstance(what, Received):
                self._note_answer()
                ended = self._handlers.hear(what)
                if ended:
                    return ended
        return "closing"

    def _rest(self) -> None:
        """Wait until the next connection is due and allowed; measuring continues."""
        self._may_reconnect.clear()
        self._pause_s = self.backoff.next_s()
        until_s = time.monotonic() + self._pause_s
        while not self._closing.is_set():
            now_s = self._keep_time(None)
            if now_s < until_s:
                self._closing.wait(min(until_s, self._measure.due_s) - now_s)
            elif self._may_reconnect.wait(max(0.0, self._measure.due_s - now_s)):
                return

    # ------------------------------------------------------------ reports

    def _keep_time(self, connection: Connection | None) -> float:
        """Do what is due: ping, repeat, report; return the time."""
        now_s = time.monotonic()
        if connection is not None:
            if self._ping.is_due(now_s):
                connection.pings.ping()
            if self._heartbeat.is_due(now_s):
                self._handlers.repeat()
        if self._measure.is_due(now_s):
            queued: Mapping[str, Json] = connection.pings.queue if connection else _NOTHING_QUEUED
            measured = self._meter.read().data()
            self._emit(LinkMeasured, direction="down", **measured, **queued)
        return now_s

    def _next_s(self) -> float:
        return min(self._ping.due_s, self._heartbeat.due_s, self._measure.due_s)

    def _note_answer(self) -> None:
        """Report the link as open at the first message of a stream."""
        if self._opened_s is None:
            self._opened_s = time.monotonic()
            after_s = self._opened_s - self._alone_s
            self._emit(LinkOpened, attempts=self._attempts, after_s=round(after_s, 6))

    def _note_end(self, why: str) -> None:
        now_s, was_open = time.monotonic(), self._opened_s is not None
        open_s = now_s - self._opened_s if self._opened_s is not None else 0.0
        self._was_refused = not was_open and now_s - self._dialled_s < _AT_ONCE_S
        self._handlers.end(why)
        self._emit(
            LinkClosed,
            was_open=was_open,
            open_s=round(open_s, 6),
            attempts=self._attempts,
            reason=why,
        )
        if was_open:
            self._alone_s, self._attempts = now_s, 0
        if open_s >= max(_SOUND_S, self._pause_s):
            self.backoff.reset()


_NOTHING_QUEUED: Mapping[str, Json] = {"queued": 0, "queued_bytes": 0}
