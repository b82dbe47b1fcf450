"""A learner's end of its link, on a thread of its own: it dials, listens, measures, dials again.

    dial ─► hello ─► listen: what arrives goes to Talk.hear ───────────────► the stream ends
     ▲                 └─ pings 4 times a second, link.measured once a second      │
     └─── a pause with backoff and jitter; not before the training thread lives ◄──┘

It goes on for as long as the learner lives, whatever the link does, and nobody waits for it: what
is said while there is no stream is said to nobody. A stream that lives shorter than the pause
before it does not make the next one shorter, so a link that always breaks is not hammered. What the
messages mean is `messenger`'s affair.
"""

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.link_meter import MEASURE_S, PING_S, Meter, Periodic
from chaoslab.diloco.wire.service import Backoff, Closed, Connection, Garbled, Received

_HEARTBEAT_S = 0.5
_SOUND_S = 1.0
"""A stream that lived for less was never of use."""


BeginProbe: TypeAlias = Callable[[Callable[[float], None]], None]
"""Begins to measure round trips beside the stream, in seconds each; see `probe`."""


class Say(Protocol):
    """Prints an event about this learner."""

    def __call__(self, kind: Kind, /, **data: Json) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What is said and heard on the streams; all of it is called on the link's thread."""

    hello: Callable[[Connection], None]
    """A stream was opened: say who is there."""
    hear: Callable[[Received[pb.ToLearner]], str | None]
    """Take in a message; a reason if the stream must end with it."""
    repeat: Callable[[], None]
    """Called twice a second, to say again what may not have been heard."""
    end: Callable[[str], None]
    """The stream has ended, for this reason."""


class Link:
    """Start it once; it ends with `close`."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        talk: Talk,
        *,
        say: Say,
        chance: random.Random,
        probe: BeginProbe | None = None,
    ) -> None:
        self.backoff = Backoff(chance)
        self._connect = connect
        self._talk = talk
        self._probe = probe
        self._say = say
        self._closing = threading.Event()
        self._shows_life = threading.Event()
        now_s = time.monotonic()
        self._meter = Meter()
        self._ping, self._measure = Periodic(PING_S, now_s), Periodic(MEASURE_S, now_s)
        self._heartbeat = Periodic(_HEARTBEAT_S, now_s)
        self._connection: Connection | None = None
        self._alone_s = now_s
        """When the last stream ended, or when the link was made."""
        self._attempts = 0
        self._opened_s: float | None = None
        self._pause_s = 0.0
        self._thread = threading.Thread(target=self._run, name="link", daemon=True)

    def start(self) -> None:
        """Begin to dial."""
        if self._probe is not None:
            self._probe(self._meter.probed)
        self._thread.start()

    def show_life(self) -> None:
        """The training thread lives: the link may dial again."""
        self._shows_life.set()

    def close(self, final_message: pb.FromLearner) -> None:
        """Say a last word and end; returns when it was taken, at the latest after `linger_s`."""
        self._closing.set()
        self._shows_life.set()
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
        connection.open()
        self._talk.hello(connection)
        return connection

    def _listen(self, connection: Connection) -> str:
        """Take in messages until the stream ends; why it ended."""
        while not self._closing.is_set():
            now_s = self._keep_time(connection)
            try:
                arrival = connection.arrivals.get(timeout=max(0.0, self._next_s() - now_s))
            except queue.Empty:
                continue
            what = arrival.event
            if isinstance(what, Closed | Garbled):
                return what.reason
            if isinstance(what, Received):
                self._note_answer()
                ended = self._talk.hear(what)
                if ended:
                    return ended
        return "closing"

    def _rest(self) -> None:
        """Wait until it is time to dial again; measuring goes on."""
        self._shows_life.clear()
        self._pause_s = self.backoff.next_s()
        until_s = time.monotonic() + self._pause_s
        while not self._closing.is_set():
            now_s = self._keep_time(None)
            if now_s < until_s:
                self._closing.wait(min(until_s, self._measure.due_s) - now_s)
            elif self._shows_life.wait(max(0.0, self._measure.due_s - now_s)):
                return

    # ------------------------------------------------------------ what is told

    def _keep_time(self, connection: Connection | None) -> float:
        """Do what is due: ping, repeat, report. The time."""
        now_s = time.monotonic()
        if connection is not None:
            if self._ping.is_due(now_s):
                connection.pings.ping()
            if self._heartbeat.is_due(now_s):
                self._talk.repeat()
        if self._measure.is_due(now_s):
            queued: Mapping[str, Json] = connection.pings.queue if connection else _NOTHING_QUEUED
            measured = self._meter.read().data()
            self._say(Kind.LINK_MEASURED, direction="down", **measured, **queued)
        return now_s

    def _next_s(self) -> float:
        return min(self._ping.due_s, self._heartbeat.due_s, self._measure.due_s)

    def _note_answer(self) -> None:
        """The first message on a stream: somebody is there."""
        if self._opened_s is None:
            self._opened_s = time.monotonic()
            after_s = self._opened_s - self._alone_s
            self._say(Kind.LINK_OPENED, attempts=self._attempts, after_s=round(after_s, 6))

    def _note_end(self, why: str) -> None:
        now_s, was_open = time.monotonic(), self._opened_s is not None
        open_s = now_s - self._opened_s if self._opened_s is not None else 0.0
        self._talk.end(why)
        self._say(
            Kind.LINK_CLOSED,
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
