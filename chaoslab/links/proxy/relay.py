"""Relay: moves the bytes of all directions that no stage acts on, in a thread of its own.

    source ═ splice ═► pipe of the kernel ═ splice ═► target       not copied, in no event loop

    Pump ── add ──► Relay: waits for sources, and for targets that are full
         ◄─ remove, or the outcome, when the stream ended or broke

Everything else is the pump's. A flow belongs to the thread from `add` until `remove` returns, or
until the flow has an outcome.
"""

import fcntl
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from functools import cache

_PIPE_BYTES = 1 << 20
_TURN_BYTES = 1 << 20
"""Most bytes moved in one turn; then other flows, and waiting threads, have theirs."""
_FLAGS = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)
_READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP
_WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR


class Outcome(Enum):
    """Reason for the end of a flow."""

    ENDED = auto()
    """The source sent its end, and everything before it was delivered."""
    SOURCE_BROKE = auto()
    TARGET_BROKE = auto()


class Tally:
    """Bytes that were taken and delivered; one thread writes it, any may read it.

    Bytes are counted after they are handed on, so their receiver may have them a moment earlier.
    """

    __slots__ = ("delivered", "received")

    def __init__(self) -> None:
        self.received = 0
        self.delivered = 0


class Flow:
    """One direction of one connection, with the bytes between its sockets."""

    __slots__ = ("_tally", "in_pipe", "on_outcome", "outcome", "pipe", "source", "target")

    def __init__(
        self, source: int, target: int, tally: Tally, on_outcome: Callable[[], None]
    ) -> None:
        """Both sockets do not block. `on_outcome` is called in the thread of the relay."""
        self.source, self.target, self.on_outcome = source, target, on_outcome
        self.pipe = _new_pipe()
        self.in_pipe = 0
        self.outcome: Outcome | None = None
        self._tally = tally

    def empty(self, tally: Tally) -> None:
        """Deliver what is between the sockets. BlockingIOError: the target is full."""
        while self.in_pipe:
            sent = os.splice(self.pipe[0], self.target, self.in_pipe, flags=_FLAGS)
            self.in_pipe -= sent
            tally.delivered += sent

    def move(self) -> None:
        """Move what is possible, at most for one turn."""
        left = _TURN_BYTES
        while left > 0:
            try:
                self.empty(self._tally)
            except BlockingIOError:
                return
            except OSError:
                self.outcome = Outcome.TARGET_BROKE
                return
            try:
                taken = os.splice(self.source, self.pipe[1], _PIPE_BYTES, flags=_FLAGS)
            except BlockingIOError:
                return
            except OSError:
                self.outcome = Outcome.SOURCE_BROKE
                return
            if not taken:
                self.outcome = Outcome.ENDED
                return
            self.in_pipe = taken
            self._tally.received += taken
            left -= taken

    def close(self) -> None:
        """Close the flow, and drop the bytes between the sockets."""
        for end in self.pipe:
            os.close(end)


class _Ends:
    """The flows at one socket, and what the thread waits for there."""

    __slots__ = ("reader", "waits_for", "writer")

    def __init__(self) -> None:
        self.reader: Flow | None = None
        self.writer: Flow | None = None
        self.waits_for = 0

    @property
    def wanted(self) -> int:
        """Events for which the flow waits: data from a source, or room in a target."""
        reads = self.reader is not None and not self.reader.in_pipe
        writes = self.writer is not None and self.writer.in_pipe
        return (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if writes else 0)


class Relay:
    """One thread for all flows of a process."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._ends: dict[int, _Ends] = {}
        self._flows = threading.Lock()
        """Taken by a thread that touches flows."""
        self._next = threading.Lock()
        """Taken by a thread that waits for that: this one lets it pass."""
        threading.Thread(target=self._run, name="relay", daemon=True).start()

    def add(self, flow: Flow) -> None:
        """Move its bytes from now on."""
        with self._alone():
            self._at(flow.source).reader = flow
            self._at(flow.target).writer = flow
            self._update(flow)

    def remove(self, flow: Flow) -> None:
        """Move them no more; nothing happens to a flow that is not there."""
        with self._alone():
            self._forget(flow)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._next, self._flows:
            yield

    def _run(self) -> None:
        while True:
            events = self._epoll.poll()
            with self._next:
                pass
            with self._flows:
                for descriptor, found in events:
                    self._serve(descriptor, found)
                    if self._next.locked():  # epoll tells again what was not served
                        break

    def _serve(self, descriptor: int, found: int) -> None:
        ends = self._ends.get(descriptor)
        if ends is None:  # removed since
            return
        for flow, moves in ((ends.reader, found & _READABLE), (ends.writer, found & _WRITABLE)):
            if flow is not None and moves:
                flow.move()
                if flow.outcome is None:
                    self._update(flow)
                else:
                    self._forget(flow)
                    flow.on_outcome()

    def _at(self, descriptor: int) -> _Ends:
        return self._ends.setdefault(descriptor, _Ends())

    def _forget(self, flow: Flow) -> None:
        source, target = self._at(flow.source), self._at(flow.target)
        source.reader = None if source.reader is flow else source.reader
        target.writer = None if target.writer is flow else target.writer
        self._update(flow)

    def _update(self, flow: Flow) -> None:
        """Wait for what its two sockets' flows need: for nothing at all where they need nothing,
        because epoll reports a socket that is hung up again and again.
        """
        for descriptor in (flow.source, flow.target):
            ends = self._ends[descriptor]
            wanted, before = ends.wanted, ends.waits_for
            ends.waits_for = wanted
            if wanted and not before:
                self._epoll.register(descriptor, wanted)
            elif before and not wanted:
                self._epoll.unregister(descriptor)
            elif wanted != before:
                self._epoll.modify(descriptor, wanted)
            if ends.reader is ends.writer is None:
                del self._ends[descriptor]


@cache
def relay() -> Relay:
    """Relay of this process, started at the first call."""
    return Relay()


def _new_pipe() -> tuple[int, int]:
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with suppress(OSError):  # a smaller pipe works too
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return ends
