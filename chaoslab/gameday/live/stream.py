"""Stream of the live page: events of the run go in on any thread, messages to many browsers out.

    see(event) ─► events (bounded) ─► pump, on the server's loop ─► Picture
                                        ├─► sentence, answer: at once ──┐
                                        ├─► picture: 3 a second at most ┼► messages, to each browser
                                        └─► curves: 1 a second at most ─┘

A browser takes what there is when it is ready: the latest picture, and of the last messages those
that it has not had. So one that reads slowly costs no memory and delays no other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from chaoslab.core.events import Event, Kind, encode
from chaoslab.gameday.live.access import Denied, Role, Visit
from chaoslab.gameday.live.picture import Message, Picture, RoleMessages
from chaoslab.report.sentences import is_notable

_EVENTS_MOST: Final = 200_000
"""Events that wait for the server; the oldest give way, and the page says so."""
_MESSAGES_KEPT: Final = 100
"""Newest messages, which a new viewer gets, too."""
_VIEWERS_MOST: Final = 100
_VIEWERS_OF_A_VISIT: Final = 8
_AT_A_TIME: Final = 50
"""Events that are folded before others have their turn."""
_PICTURE_EVERY_S: Final = 1 / 3
_CURVES_EVERY_S: Final = 1.0
_BEAT_S: Final = 10.0
_BEAT: Final = b": still here\n\n"
_RETRY: Final = b"retry: 1000\n\n"
"""After this many milliseconds a browser connects again."""
_SHOWN: Final = frozenset(kind for kind in Kind if Picture.cares_for(kind))
_AT_ONCE: Final = frozenset(kind for kind in _SHOWN if is_notable(kind))
"""The others, which come by the thousand, wait for the next picture, and wake no reader."""


def framed(message: Message) -> bytes:
    """One server-sent event. JSON has no line breaks outside of its escapes."""
    return b"data: " + encode(message).encode() + b"\n\n"


class Stream:
    """Messages from the events of one run to all browsers."""

    def __init__(self, picture: Picture, *, most_events: int = _EVENTS_MOST) -> None:
        self.picture = picture
        self.missed = 0
        """Events that came faster than they were folded, and were given up."""
        self.restarts = 0
        """Number of restarts of the server."""
        self._events: deque[Event] = deque(maxlen=most_events)
        self._told: deque[RoleMessages] = deque(maxlen=_MESSAGES_KEPT)
        self._told_in_all = 0
        self._drawn = 0
        """Number of pictures that were due."""
        self._pictures: dict[Role, bytes] = {}
        """The one that is shown, for whom it was asked for."""
        self._curved = 0
        """How often curves were due."""
        self._curves = b""
        """Those that are shown; empty until they are asked for."""
        self._visits: list[Visit] = []
        """One visit for each connected browser."""
        self._is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._changed = asyncio.Event(), asyncio.Event()
        self._has_changed = False
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
            if self._loop is not None:
                with suppress(RuntimeError):  # closed just now; the next one looks by itself
                    self._loop.call_soon_threadsafe(self._news.set)

    # ---------------------------------------------------------------- the server's loop

    @property
    def viewers(self) -> int:
        """Browsers that are connected."""
        return len(self._visits)

    @property
    def watching(self) -> Message:
        """Who has a page open, by name, and how many pages are open."""
        people = sorted({visit.name for visit in self._visits if visit.name})
        return {"people": list(people), "watching": self.viewers}

    async def pump(self) -> None:
        """Fold events and tell browsers, until cancelled."""
        self._news, self._changed = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._visits.clear()  # those of a loop before this one
        due_s = curves_due_s = 0.0
        are_curves_old = False
        while True:
            self._is_woken = False
            await self._fold()
            now_s = self._loop.time()
            if is_picture_due := self._has_changed and now_s >= due_s:
                self._has_changed, self._drawn = False, self._drawn + 1
                self._pictures.clear()
                are_curves_old = True
            if are_curves_due := are_curves_old and now_s >= curves_due_s:
                are_curves_old, curves_due_s = False, now_s + _CURVES_EVERY_S
                self._curved, self._curves = self._curved + 1, b""
            if is_picture_due or are_curves_due:
                self._tell()
            if not self._has_changed:
                due_s = now_s + _PICTURE_EVERY_S
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._news.wait()
            self._news.clear()

    def close(self) -> None:
        """End the answers to all browsers, and to those that still come."""
        self._is_closed = True
        self._tell()

    async def messages(self, visit: Visit) -> AsyncIterator[bytes]:
        """Messages to one browser, while it is connected."""
        with self._connected(visit):
            yield _RETRY + framed(
                {
                    "type": "you",
                    "role": visit.role.value,
                    "name": visit.name,
                    "predicted": dict(visit.predicted),
                }
            )
            drawn, curved, told = -1, -1, self._told_in_all
            new = [one for one in self._told if one.operators["type"] == "sentence"]
            while not self._is_closed:
                changed = self._changed
                frames = [framed(one.to(visit.role)) for one in new]
                if drawn != self._drawn:
                    drawn = self._drawn
                    frames.append(self._picture(visit.role))
                if curved != self._curved:
                    curved = self._curved
                    self._curves = self._curves or framed(self.picture.curves())
                    frames.append(self._curves)
                yield b"".join(frames) or _BEAT
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT_S):
                        await changed.wait()
                told, since = self._told_in_all, self._told_in_all - told
                new = list(self._told)[-since:] if since else []

    def require_room(self, visit: Visit) -> None:
        """Denied if too many browsers are connected, or too many of this one's pages."""
        own = sum(one is visit for one in self._visits)
        if own >= _VIEWERS_OF_A_VISIT or self.viewers >= _VIEWERS_MOST:
            raise Denied(429, "too many pages are open: close one")

    @contextmanager
    def _connected(self, visit: Visit) -> Iterator[None]:
        self._visits.append(visit)
        self._change()
        try:
            yield
        finally:
            if visit in self._visits:  # the loop may have died meanwhile
                self._visits.remove(visit)
            self._change()

    def _change(self) -> None:
        self._has_changed = True
        self._news.set()

    async def _fold(self) -> None:
        while self._events:
            for _ in range(min(_AT_A_TIME, len(self._events))):
                told = self.picture.see(self._events.popleft())
                self._told.extend(told)
                self._told_in_all += len(told)
            self._has_changed = True
            self._tell()
            await asyncio.sleep(0)

    def _tell(self) -> None:
        """Wake all readers that wait for something new."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _picture(self, role: Role) -> bytes:
        if role not in self._pictures:
            state = {**self.watching, "missed": self.missed}
            self._pictures[role] = framed(
                {"type": "picture", **self.picture.to_json(role), **state}
            )
        return self._pictures[role]
