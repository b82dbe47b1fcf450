"""Transfer of one direction of one connection: from a source to a target socket, through stages.

    source ─► take ─► stages: delay, rate, or nothing passes ─► queue ─► deliver ─► target
    source ════════════ `relay`, while there is no stage ════════════════════════════► target

`advance` delivers what is due, takes what is allowed, and waits for the source, the target or a
time. It is called when one of them occurs and when the stages change. Bytes in transit are bounded,
so a slow target holds the source back. Without stages, and once nothing is queued, the relay has
the sockets until the stages change or the stream is over.
"""

import os
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto

from chaoslab.links.proxy.relay import Flow, Outcome, Tally, relay
from chaoslab.links.proxy.stages import CHUNK_BYTES_MAX, Stage

WINDOW_BYTES = 32 << 20
"""Most bytes in transit per direction of a connection; bounds delay times rate."""
_CHUNK_COST = 512
"""Overhead of a chunk in bytes, so that many small chunks are bounded too."""
_TURN_BYTES = 4 << 20
"""Most bytes moved in one turn; then other connections have theirs."""
_AHEAD_S = 0.002
"""Seconds of a paced stream taken in advance, because the event loop wakes up to 1 ms late."""
_LATE_S = 0.1
"""Most seconds that a late turn makes up for, so that rates hold on a busy machine."""


class Traffic:
    """Bytes in one direction of a link, over all its connections."""

    def __init__(self) -> None:
        self.staged, self.relayed = Tally(), Tally()
        """Tallies of the event loop and of the relay's thread, apart so that no count is lost."""
        self.lost = 0

    @property
    def received(self) -> int:
        """Bytes taken from the sources."""
        return self.staged.received + self.relayed.received

    @property
    def delivered(self) -> int:
        """Bytes handed on to the targets."""
        return self.staged.delivered + self.relayed.delivered


class Notice(Enum):
    """What a pump tells its connection, which may stop the pump."""

    SOURCE_BROKE = auto()
    """The source was reset; nothing more will come from it."""
    TARGET_BROKE = auto()
    """The target accepts nothing any more."""
    STREAM_ENDED = auto()
    """The end of the stream was passed on; the pump has stopped."""
    LIMIT_REACHED = auto()
    """The limit of bytes was reached: the connection must end."""


class _SourceBroke(Exception):
    """An error of the source, as distinct from one of the target."""


class _Chunk:
    __slots__ = ("data", "due_s")

    def __init__(self, data: memoryview, due_s: float) -> None:
        self.data, self.due_s = data, due_s


class Pump:
    """Call `shape` to start, once both sockets are connected and non-blocking."""

    can_splice = hasattr(os, "splice")

    def __init__(
        self,
        loop: AbstractEventLoop,
        source: socket.socket,
        target: socket.socket,
        traffic: Traffic,
        notify: Callable[[Notice], None],
    ) -> None:
        self._loop, self._source, self._target = loop, source, target
        self._traffic, self._notify = traffic, notify
        self._stages: tuple[Stage, ...] = ()
        self._is_frozen = self._is_lossy = False
        self._queue: deque[_Chunk] = deque()
        self._queued = 0
        self._last_due_s = 0.0
        self._next_take_s = 0.0
        """Time at which a paced stream may be taken from again; 0 while the source is empty."""
        self._has_ended = False
        self._end_due_s = 0.0
        self._is_limited = False
        self._is_stopped = False
        self._is_blocked = False
        """Whether the target's buffer is full."""
        self._flow: Flow | None = None
        self._is_relayed = False
        """Whether the flow belongs to the relay's thread."""
        self._waits_for_source = self._waits_for_target = False
        self._timer: TimerHandle | None = None

    # ---------------------------------------------------------------- public

    @property
    def is_silent(self) -> bool:
        """Whether nothing passes, notices of a broken end included."""
        return self._is_frozen or self._is_lossy

    def shape(self, stages: Mapping[str, Stage]) -> None:
        """Use these stages from now on; reschedules bytes in transit that are due too late."""
        self._conclude(self._take_back())
        self._stages = tuple(sorted(stages.values(), key=lambda stage: not stage.paces))
        self._is_frozen = any(stage.freezes for stage in self._stages)
        self._is_lossy = any(stage.loses for stage in self._stages)
        latest_s = self._loop.time() + sum(stage.delay_s for stage in self._stages)
        for chunk in self._queue:
            chunk.due_s = min(chunk.due_s, latest_s)
        self._last_due_s = min(self._last_due_s, latest_s)
        self._end_due_s = min(self._end_due_s, latest_s)
        self._next_take_s = 0.0
        self.advance()

    def stop(self) -> None:
        """Stop using the sockets; bytes in transit are dropped."""
        self._take_back()
        self._is_stopped = True
        self._listen(source=False, target=False)
        self._wake_at(None)
        self._queue.clear()
        if self._flow is not None:
            self._flow.close()
            self._flow = None

    def advance(self) -> None:
        """Do what is possible now, then wait for what must happen first."""
        if self._is_stopped or self._is_relayed:
            return
        now_s = self._loop.time()
        try:
            self._deliver(now_s)
            self._take(now_s)
        except _SourceBroke:
            self._notify(Notice.SOURCE_BROKE)
        except OSError:
            self._notify(Notice.TARGET_BROKE)
        if not self._is_stopped:
            self._hand_over_or_wait(now_s)

    # ---------------------------------------------------------------- taking

    def _may_take(self, now_s: float) -> bool:
        return (
            not self._has_ended
            and not self._is_plain
            and not self._is_frozen
            and not self._is_stopped
            and self._queued < WINDOW_BYTES
            and self._next_take_s <= now_s + _AHEAD_S
        )

    def _take(self, now_s: float) -> None:
        turn = _TURN_BYTES
        while turn > 0 and self._may_take(now_s):
            try:
                taken = self._receive(now_s)
            except BlockingIOError:
                self._next_take_s = 0.0
                return
            except OSError as error:
                raise _SourceBroke from error
            self._deliver(now_s)
            turn -= taken

    def _receive(self, now_s: float) -> int:
        size = min((stage.chunk_bytes for stage in self._stages), default=CHUNK_BYTES_MAX)
        lefts = (stage.bytes_left for stage in self._stages)
        data = self._source.recv(min([size, *(left for left in lefts if left is not None)]))
        self._traffic.staged.received += len(data)
        if not data:
            self._end(now_s)
        elif self._is_lossy:
            self._traffic.lost += len(data)
        else:
            self._enqueue(data, now_s)
        return len(data)

    def _enqueue(self, data: bytes, now_s: float) -> None:
        due_s = max(self._next_take_s, now_s - _LATE_S) if self._next_take_s else now_s
        for stage in self._stages:
            due_s = stage.pass_at(len(data), due_s)
            if stage.paces:
                self._next_take_s = due_s
        self._last_due_s = due_s = max(due_s, self._last_due_s)
        self._queue.append(_Chunk(memoryview(data), due_s))
        self._queued += len(data) + _CHUNK_COST
        if any(stage.bytes_left == 0 for stage in self._stages):
            self._is_limited = True
            self._end(now_s)

    def _end(self, now_s: float) -> None:
        """Take no more; bytes in transit are delivered first."""
        self._has_ended = True
        late_s = sum(stage.close_delay_s for stage in self._stages)
        self._end_due_s = max(now_s, self._last_due_s) + late_s

    # ---------------------------------------------------------------- delivering

    def _deliver(self, now_s: float) -> None:
        if self._is_frozen:
            return
        self._is_blocked = False
        try:
            if self._flow is not None:  # what the relay had begun to move comes first
                self._flow.empty(self._traffic.staged)
            while self._queue and self._queue[0].due_s <= now_s:
                self._send(self._queue[0])
        except BlockingIOError:
            self._is_blocked = True
            return
        is_news = self._has_ended and not self._queue and self._end_due_s <= now_s
        if is_news and not self.is_silent:
            self._tell_end()

    def _send(self, chunk: _Chunk) -> None:
        sent = self._target.send(chunk.data)
        self._traffic.staged.delivered += sent
        if sent < len(chunk.data):
            chunk.data = chunk.data[sent:]
            self._queued -= sent
        else:
            self._queue.popleft()
            self._queued -= sent + _CHUNK_COST

    def _tell_end(self) -> None:
        if self._is_limited:
            self._notify(Notice.LIMIT_REACHED)
            return
        with suppress(OSError):  # the target is gone, which the other direction notices
            self._target.shutdown(socket.SHUT_WR)
        self.stop()
        self._notify(Notice.STREAM_ENDED)

    # ---------------------------------------------------------------- without stages

    @property
    def _is_plain(self) -> bool:
        """Whether bytes pass as they come, so that the relay can move them."""
        return self.can_splice and not (self._stages or self._queue or self._has_ended)

    def _hand_over_or_wait(self, now_s: float) -> None:
        if self._is_plain:
            self._hand_over()
        else:
            self._wait(now_s)

    def _hand_over(self) -> None:
        """Let the relay move the bytes from now on."""
        self._listen(source=False, target=False)
        self._wake_at(None)
        if self._flow is None:
            self._flow = Flow(
                self._source.fileno(), self._target.fileno(), self._traffic.relayed, self._call_back
            )
        self._is_relayed = True
        relay().add(self._flow)

    def _take_back(self) -> Outcome | None:
        """Move them here from now on; what came of the relay's flow, if it is over."""
        if not self._is_relayed or self._flow is None:
            return None
        relay().remove(self._flow)
        self._is_relayed = False
        return self._flow.outcome

    def _call_back(self) -> None:
        """The flow is over: said by the relay's thread, which waits for nothing here."""
        with suppress(RuntimeError):  # the loop was closed, and everything with it
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        """Do what is left to do after the relay's flow, unless that has been done."""
        outcome = self._take_back()
        if outcome is not None:
            self._conclude(outcome)
            self.advance()

    def _conclude(self, outcome: Outcome | None) -> None:
        match outcome:
            case Outcome.ENDED:
                self._end(self._loop.time())
            case Outcome.SOURCE_BROKE:
                self._notify(Notice.SOURCE_BROKE)
            case Outcome.TARGET_BROKE:
                self._notify(Notice.TARGET_BROKE)

    # ---------------------------------------------------------------- waiting

    def _wait(self, now_s: float) -> None:
        """Wait for the source, the target or a time, whichever the next turn needs."""
        if self._is_frozen:
            self._listen(source=False, target=False)
            self._wake_at(None)
            return
        moments = []
        if self._queue and not self._is_blocked:
            moments.append(self._queue[0].due_s)
        elif self._has_ended and not self._is_blocked and not self.is_silent:
            moments.append(self._end_due_s)
        if not self._has_ended and self._next_take_s > now_s + _AHEAD_S:
            moments.append(self._next_take_s - _AHEAD_S)
        self._listen(source=self._may_take(now_s), target=self._is_blocked)
        self._wake_at(min(moments, default=None))

    def _listen(self, *, source: bool, target: bool) -> None:
        if source != self._waits_for_source:
            self._waits_for_source = source
            if source:
                self._loop.add_reader(self._source.fileno(), self.advance)
            else:
                self._loop.remove_reader(self._source.fileno())
        if target != self._waits_for_target:
            self._waits_for_target = target
            if target:
                self._loop.add_writer(self._target.fileno(), self.advance)
            else:
                self._loop.remove_writer(self._target.fileno())

    def _wake_at(self, moment_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if moment_s is not None:
            self._timer = self._loop.call_at(moment_s, self.advance)
