"""Stream of the live page: events of the run go in on any thread, messages to many browsers out.

    see(event) ─► events (bounded) ─► pump, on the server's loop ─► Picture
                                        ├─► sentence, answer: at once ──┐
                                        └─► picture: 3 a second at most ┴► Feed of each browser
    Feed: full ─► emptied, and a whole snapshot in its place

A feed keeps the latest picture alone, and a bounded number of messages: a browser that reads slowly
costs no memory and holds up nobody.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from chaoslab.core.events import Event, Kind, encode
from chaoslab.gameday.live.access import Denied, Role, Visit
from chaoslab.gameday.live.picture import Message, Picture, Told
from chaoslab.report.sentences import is_notable

_EVENTS_MOST: Final = 200_000
"""Events that wait for the server; the oldest give way, and the page says so."""
_MESSAGES_MOST: Final = 256
"""Messages that wait for one browser."""
_FEEDS_MOST: Final = 100
_FEEDS_OF_A_VISIT: Final = 8
_AT_A_TIME: Final = 50
"""Events that are folded before others have their turn."""
_PICTURE_EVERY_S: Final = 1 / 3
_BEAT_S: Final = 10.0
_BEAT: Final = b": still here\n\n"
_RETRY: Final = b"retry: 1000\n\n"
"""After so many milliseconds a browser connects again."""
_SHOWN: Final = frozenset(kind for kind in Kind if Picture.cares_for(kind))
_AT_ONCE: Final = frozenset(kind for kind in _SHOWN if is_notable(kind))
"""The others, which come by the thousand, wait for the next picture, and wake nobody."""


def framed(message: Message) -> bytes:
    """One server-sent event. JSON has no line breaks outside of its escapes."""
    return b"data: " + encode(message).encode() + b"\n\n"


class Feed:
    """What waits for one browser; used on the server's loop alone."""

    def __init__(self, visit: Visit, snapshot: Callable[[], bytes], *, most: int) -> None:
        """`snapshot` makes the whole state, which comes first."""
        self.visit = visit
        self.is_closed = False
        self._is_behind = True
        self._snapshot = snapshot
        self._messages: deque[bytes] = deque()
        self._most = most
        self._picture: bytes | None = None
        self._news = asyncio.Event()

    def put(self, message: bytes) -> None:
        """A message that comes after those before it; too many give way to a snapshot."""
        if not self._is_behind:
            self._messages.append(message)
            if len(self._messages) > self._most:
                self._is_behind = True
                self._messages.clear()
        self._news.set()

    def show(self, picture: bytes) -> None:
        """The state as it is now, in the place of the one before."""
        self._picture = picture
        self._news.set()

    def close(self) -> None:
        """Nothing more comes."""
        self.is_closed = True
        self._news.set()

    async def take(self, within_s: float) -> bytes:
        """All that waits, or a heartbeat if nothing came for so long."""
        if not self._is_behind:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._news.wait()
        self._news.clear()
        return self._waiting() or _BEAT

    def _waiting(self) -> bytes:
        found = b"".join(self._messages) + (self._picture or b"")
        self._messages.clear()
        self._picture = None
        if not self._is_behind:
            return found
        self._is_behind = False
        return self._snapshot()


class Stream:
    """From the events of one run to all browsers."""

    def __init__(
        self, picture: Picture, *, most_events: int = _EVENTS_MOST, most: int = _MESSAGES_MOST
    ) -> None:
        """`most`: messages that wait for one browser."""
        self.picture = picture
        self.missed = 0
        """Events that came while nobody folded them, and were given up."""
        self.restarts = 0
        """How often the server had to be started again."""
        self._events: deque[Event] = deque(maxlen=most_events)
        self._most = most
        self._feeds: set[Feed] = set()
        self._is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._is_changed = False
        self._is_closed = False

    # ---------------------------------------------------------------- any thread

    def see(self, event: Event) -> None:
        """Take one event; returns at once and never raises."""
        if event.kind not in _SHOWN:
            return
        if len(self._events) == self._events.maxlen:
            self.missed += 1
        self._events.append(event)
        if event.kind in _AT_ONCE and not self._is_woken:
            self._is_woken = True
            self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it was closed just now; the next one looks by itself
                loop.call_soon_threadsafe(self._news.set)

    # ---------------------------------------------------------------- the server's loop

    @property
    def viewers(self) -> int:
        """Browsers that are connected."""
        return len(self._feeds)

    async def pump(self) -> None:
        """Fold events and pass messages on, until cancelled."""
        self._news, self._loop = asyncio.Event(), asyncio.get_running_loop()
        self._feeds.clear()  # those of a loop before this one
        due_s = 0.0
        while True:
            self._is_woken = False
            await self._fold()
            now_s = self._loop.time()
            if self._is_changed and now_s >= due_s:
                self._draw()
            if not self._is_changed:
                due_s = now_s + _PICTURE_EVERY_S
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._news.wait()
            self._news.clear()

    def close(self) -> None:
        """End the answers to all browsers, and to those that still come."""
        self._is_closed = True
        for feed in self._feeds:
            feed.close()

    async def messages(self, visit: Visit) -> AsyncIterator[bytes]:
        """What one browser is sent, for as long as it stays."""
        feed = self._opened(visit)
        try:
            yield _RETRY + framed(_you(visit))
            while not (feed.is_closed or self._is_closed):
                yield await feed.take(_BEAT_S)
        finally:
            self._feeds.discard(feed)
            self._change()

    def require_room(self, visit: Visit) -> None:
        """Denied if too many browsers are connected, or too many of this one's pages."""
        own = sum(feed.visit is visit for feed in self._feeds)
        if own >= _FEEDS_OF_A_VISIT or len(self._feeds) >= _FEEDS_MOST:
            raise Denied(429, "too many pages are open: close one")

    def snapshot(self, role: Role) -> bytes:
        """The whole state with the latest sentences, as one message."""
        sentences = self.picture.sentences(role)
        return framed({**self._state("snapshot", role), "sentences": sentences})

    def _opened(self, visit: Visit) -> Feed:
        feed = Feed(visit, partial(self.snapshot, visit.role), most=self._most)
        self._feeds.add(feed)
        self._change()
        return feed

    def _change(self) -> None:
        self._is_changed = True
        self._news.set()

    async def _fold(self) -> None:
        while self._events:
            for _ in range(min(_AT_A_TIME, len(self._events))):
                for told in self.picture.see(self._events.popleft()):
                    self._tell(told)
            self._is_changed = True
            await asyncio.sleep(0)

    def _tell(self, told: Told) -> None:
        for role, feeds in self._by_role():
            message = framed(told.to(role))
            for feed in feeds:
                feed.put(message)

    def _draw(self) -> None:
        self._is_changed = False
        for role, feeds in self._by_role():
            picture = framed(self._state("picture", role))
            for feed in feeds:
                feed.show(picture)

    def _by_role(self) -> Iterator[tuple[Role, Sequence[Feed]]]:
        """Those who are connected, for whom a message is encoded once."""
        for role in Role:
            if feeds := [feed for feed in self._feeds if feed.visit.role is role]:
                yield role, feeds

    def _state(self, name: str, role: Role) -> Message:
        return {
            "type": name,
            **self.picture.to_json(role),
            "watching": self.viewers,
            "missed": self.missed,
        }


def _you(visit: Visit) -> Message:
    return {
        "type": "you",
        "role": visit.role.value,
        "name": visit.name,
        "predicted": dict(visit.predicted),
    }
