"""Bounded send and receive queues of a stream, and what is received. No sockets.

    send ─► Outbox: controls, payloads by key, then bulk ─► frames() ══ stream ══► reader
    reader ─► Gate.put ─► Inbox ─► get(): Arrival ─► the one thread that owns the state

An Outbox never blocks its caller: an unsent payload is replaced by a newer one with the same key,
so a frozen link holds at most one per key. An Inbox blocks the reader of a session that has too
much in it, so that the stream's flow control slows the sender down.
"""

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from chaoslab.core.link_meter import Meter, Queued
from chaoslab.diloco.wire import wire_pb2 as pb

T = TypeVar("T")
M = TypeVar("M", pb.FromLearner, pb.ToLearner)
Bytes: TypeAlias = bytes | bytearray | memoryview

Frames: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes the frames of one payload, on the thread that sends them."""
Control: TypeAlias = bytes | Callable[[], bytes]
"""A frame without payload, or a function that makes it when it is sent."""


class Outbox:
    """Unsent messages and payloads of one end of a stream. Thread-safe."""

    def __init__(self, *, controls_max: int) -> None:
        self._controls_max = controls_max
        self._controls: OrderedDict[Hashable, Control] = OrderedDict()
        self._payloads: OrderedDict[Hashable, tuple[Frames, int]] = OrderedDict()
        self._bulk: OrderedDict[Hashable, tuple[Frames, int]] = OrderedDict()
        """Payloads that the others pass, even between their frames."""
        self._is_closing = False
        self._changed = threading.Condition()

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of controls and of payloads that have not been begun."""
        with self._changed:
            return len(self._controls), len(self._payloads) + len(self._bulk)

    @property
    def waiting_bytes(self) -> int:
        """Bytes held in memory; a payload or control that is not made yet counts as zero."""
        with self._changed:
            made = sum(
                len(control) for control in self._controls.values() if isinstance(control, bytes)
            )
            payloads = (*self._payloads.values(), *self._bulk.values())
            return made + sum(size for _, size in payloads)

    def put(self, frame: Control, key: Hashable | None = None) -> bool:
        """Queue one frame; with a key it replaces an unsent one with the same key.

        False if `controls_max` frames wait (the peer does not read). No effect once closed.
        """
        with self._changed:
            if self._is_closing:
                return True
            key = object() if key is None else key
            if len(self._controls) >= self._controls_max and key not in self._controls:
                return False
            self._controls[key] = frame
            self._changed.notify()
            return True

    def put_payload(
        self, frames: Frames, key: Hashable, size_bytes: int = 0, *, is_bulk: bool = False
    ) -> None:
        """Queue a payload; it replaces an unsent one with the same key and keeps its place.

        `is_bulk`: others are sent before it, also those that come while it is being sent.
        """
        with self._changed:
            if not self._is_closing:
                (self._bulk if is_bulk else self._payloads)[key] = frames, size_bytes
                self._changed.notify()

    def close(self, final: bytes | None = None) -> None:
        """End after the controls and `final`; payloads are dropped, also the one being sent."""
        with self._changed:
            if final is not None and not self._is_closing:
                self._controls[object()] = final
            self._is_closing = True
            self._payloads.clear()
            self._bulk.clear()
            self._changed.notify()

    def cut(self) -> None:
        """End at once and drop everything: the stream is broken."""
        with self._changed:
            self._controls.clear()
        self.close()

    def frames(self) -> Iterator[bytes]:
        """Frames in the order in which they are sent; blocks for more until it is closed."""
        while self._wait():
            if (control := self._control()) is not None:
                yield control
            elif (frames := self._next(self._payloads)) is not None:
                yield from self._interleaved(frames)
            elif (frames := self._next(self._bulk)) is not None:
                yield from self._interleaved(frames, is_bulk=True)

    def _interleaved(self, frames: Frames, *, is_bulk: bool = False) -> Iterator[bytes]:
        for frame in frames():
            while self._controls and (control := self._control()) is not None:
                yield control
            while is_bulk and (passing := self._next(self._payloads)) is not None:
                yield from self._interleaved(passing)
            if self._is_closing:
                return
            yield frame

    def _wait(self) -> bool:
        """Block until there is something to send; False if nothing more will come."""
        with self._changed:
            while not (self._controls or self._payloads or self._bulk or self._is_closing):
                self._changed.wait()
            return bool(self._controls or self._payloads or self._bulk)

    def _control(self) -> bytes | None:
        with self._changed:
            control = self._controls.popitem(last=False)[1] if self._controls else None
        return control() if callable(control) else control

    def _next(self, payloads: OrderedDict[Hashable, tuple[Frames, int]]) -> Frames | None:
        with self._changed:
            return payloads.popitem(last=False)[1][0] if payloads else None


@dataclass(frozen=True, slots=True)
class Received(Generic[M]):
    """A message with its payload: read-only bytes, None if its body has no payload."""

    message: M
    payload: memoryview | None


@dataclass(frozen=True, slots=True)
class Closed:
    """The stream has ended, at either end; nothing follows."""

    reason: str
    is_garbled: bool = False
    """Whether this end broke it off because of malformed input."""


StreamEvent: TypeAlias = Received[M] | Closed


@dataclass(frozen=True, slots=True)
class Arrival(Generic[M]):
    """An item from a session. A learner's end has one session, number 0."""

    session: int
    event: StreamEvent[M]


class StreamPings(Protocol):
    """Pings of one stream, and how its link is measured: `wire.pings`, or of a simulated one."""

    @property
    def meter(self) -> Meter:
        """What measures its link."""
        ...

    @property
    def queue(self) -> Queued:
        """What waits to be sent."""
        ...

    def ping(self) -> None:
        """Send one."""
        ...

    def use_meter(self, meter: Meter) -> None:
        """Measure by this one from now on."""
        ...


class Inbox(Generic[T]):
    """Items from several sessions for one consumer."""

    def __init__(self, *, items_max: int, bytes_max: int) -> None:
        self.items_max, self.bytes_max = items_max, bytes_max
        """Most items and bytes of one session that wait at once."""
        self.items: deque[tuple[T, int, Gate[T]]] = deque()
        self.changed = threading.Condition()
        self._is_woken = False

    def wake(self) -> None:
        """End a `get` that blocks, or the next one that would, with queue.Empty."""
        with self.changed:
            self._is_woken = True
            self.changed.notify_all()

    def get(self, timeout: float | None = None) -> T:
        """Remove the oldest item; block for it, at most `timeout` seconds or until `wake`.

        Raises queue.Empty.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            was_woken, self._is_woken = self._is_woken, False
            while not self.items:
                if was_woken or self._is_woken:
                    self._is_woken = False
                    raise queue.Empty
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    raise queue.Empty
                self.changed.wait(left_s)
            item, size_bytes, gate = self.items.popleft()
            gate.waiting, gate.waiting_bytes = gate.waiting - 1, gate.waiting_bytes - size_bytes
            self.changed.notify_all()
            return item


class Gate(Generic[T]):
    """Input of one session to an Inbox: counts its items and blocks when there are too many."""

    def __init__(self, inbox: Inbox[T]) -> None:
        self._inbox = inbox
        self.waiting = self.waiting_bytes = 0
        self._is_open = False

    def put(self, item: T, size_bytes: int = 0) -> None:
        """Queue an item; block while the session's earlier items exceed its bounds.

        A session without items is never blocked, however large the item is.
        """
        with self._inbox.changed:
            while not self._has_room(size_bytes):
                self._inbox.changed.wait()
            self.waiting, self.waiting_bytes = self.waiting + 1, self.waiting_bytes + size_bytes
            self._inbox.items.append((item, size_bytes, self))
            self._inbox.changed.notify_all()

    def open(self) -> None:
        """Stop blocking: the session has ended and only its last items follow."""
        with self._inbox.changed:
            self._is_open = True
            self._inbox.changed.notify_all()

    def _has_room(self, size_bytes: int) -> bool:
        if self._is_open or self.waiting == 0:
            return True
        has_bytes = self.waiting_bytes + size_bytes <= self._inbox.bytes_max
        return has_bytes and self.waiting < self._inbox.items_max
