"""One connection between a learner and the syncer: two sockets, two pumps.

    learner ══ upstream pump ══► syncer
            ◄═ downstream pump ══

Keeps the stages of each toxic, and decides when an end learns that the other one ended or broke:
not while its direction is frozen or a blackhole, as if that were news on the wire.
"""

import socket
import struct
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from chaoslab.links.proxy.pump import Notice, Pump, Traffic
from chaoslab.links.proxy.stages import Stage
from chaoslab.links.proxy.toxics import DOWN, UP, HalfOpen, ResetPeer, Timeout, Toxic

_RST_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, for no time: close sends a RST and drops what is unsent."""


class Connection:
    """Both ends are open when it is created; `begin` starts the transfer."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        seat: tuple[str, int],
        ends: tuple[socket.socket, socket.socket],
        traffic: Mapping[str, Traffic],
        on_close: "Callable[[Connection], None]",
    ) -> None:
        """`seat`: the link and the number of the connection. `ends`: the learner's and the
        syncer's.

        `on_close` is called once, after both ends were closed.
        """
        learner, syncer = ends
        self._loop, self._seat, self._on_close = loop, seat, on_close
        self._ends = {UP: learner, DOWN: syncer}
        """Sockets by the direction in which they send."""
        self._pumps = {
            UP: Pump(loop, learner, syncer, traffic[UP], partial(self._notice, UP)),
            DOWN: Pump(loop, syncer, learner, traffic[DOWN], partial(self._notice, DOWN)),
        }
        self._stages: dict[str, dict[str, Stage]] = {UP: {}, DOWN: {}}
        """Stages by direction and name of their toxic."""
        self._timers: dict[str, TimerHandle] = {}
        self._halved_by: set[str] = set()
        self._untold: str | None = None
        """Direction in which a broken end is to be reported as soon as it is possible."""
        self._ended: set[str] = set()
        self._is_closed = False

    # ---------------------------------------------------------------- toxics

    def begin(self, toxics: Iterable[Toxic]) -> None:
        """Start the transfer with these toxics."""
        for toxic in toxics:
            self._take_on(toxic)
        for way in (UP, DOWN):
            self._shape(way)

    def meet(self, toxic: Toxic) -> None:
        """Apply a toxic that was added or changed while it is open."""
        if isinstance(toxic.kind, HalfOpen) and toxic.hits(*self._seat):
            self._halve(toxic)
        self._take_on(toxic)
        for way in toxic.ways:
            self._shape(way)

    def part(self, toxic: Toxic) -> None:
        """Remove a toxic. If it has lost bytes, the stream cannot continue and ends."""
        if isinstance(toxic.kind, Timeout) and toxic.hits(*self._seat):
            self.reset()
        self._cancel(toxic.name)
        for way in toxic.ways:
            self._stages[way].pop(toxic.name, None)
            self._shape(way)
        if toxic.name in self._halved_by:
            self._halved_by.remove(toxic.name)
            self._tell()

    def _take_on(self, toxic: Toxic) -> None:
        self._cancel(toxic.name)
        is_hit = toxic.hits(*self._seat)
        for way in toxic.ways:
            stage = toxic.stage(way, *self._seat) if is_hit else None
            if stage is not None:
                self._stages[way][toxic.name] = stage
            else:
                self._stages[way].pop(toxic.name, None)
        if not is_hit:
            return
        match toxic.kind:
            case Timeout(timeout=after_ms) if after_ms:
                self._reset_after(toxic.name, after_ms)
            case ResetPeer(timeout=after_ms):
                self._reset_after(toxic.name, after_ms)

    def _reset_after(self, name: str, after_ms: float) -> None:
        self._timers[name] = self._loop.call_later(after_ms / 1e3, self.reset)

    def _cancel(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _shape(self, way: str) -> None:
        if not self._is_closed:
            self._pumps[way].shape(self._stages[way])
            self._tell()

    # ---------------------------------------------------------------- endings

    def close(self) -> None:
        """Close in order: a FIN to both ends, after the bytes in transit."""
        self._finish(is_reset=False)

    def reset(self) -> None:
        """Reset: a RST to both ends."""
        self._finish(is_reset=True)

    def _finish(self, *, is_reset: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for name in tuple(self._timers):
            self._cancel(name)
        self._stop()
        for end in self._ends.values():
            close(end, is_reset=is_reset)
        self._on_close(self)

    def _stop(self) -> None:
        for pump in self._pumps.values():
            pump.stop()

    # ---------------------------------------------------------------- half-open

    def _halve(self, toxic: Toxic) -> None:
        """Close the end that sends in the toxic's direction (with both: none), unnoticed."""
        self._halved_by.add(toxic.name)
        self._lose(*toxic.ways)

    def _lose(self, way: str, *_both: str) -> None:
        """Record that one end is gone, or for both directions the path between them."""
        self._stop()
        self._untold = way
        if not _both:
            close(self._ends[way], is_reset=True)

    def _tell(self) -> None:
        if self._untold and not self._halved_by and not self._pumps[self._untold].is_silent:
            self.reset()

    def _notice(self, way: str, notice: Notice) -> None:
        """React to the notice of a direction's pump."""
        match notice:
            case Notice.SOURCE_BROKE:
                self._lose(way)
                self._tell()
            case Notice.TARGET_BROKE:
                self._lose(DOWN if way == UP else UP)
                self._tell()
            case Notice.STREAM_ENDED:
                self._ended.add(way)
                if len(self._ended) == len(self._pumps):
                    self.close()
            case Notice.LIMIT_REACHED:
                self.close()


def close(end: socket.socket, *, is_reset: bool) -> None:
    """Close a socket, with a RST or in order."""
    if is_reset:
        with suppress(OSError):  # closed already, or gone
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
    end.close()
