"""One direction of a simulated link: a queue, a rate, a latency, and the effects of faults.

    send ─► queue ── least rate ──► on its way ── latencies ──► deliver
              └── frozen: stays         └── black hole: is lost

Order is kept: a packet never overtakes an earlier one. When an effect comes or goes, what has not
arrived is planned anew from where it is. One event of the agenda stands for the next arrival.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import msgspec

from chaoslab.links.effects import Bandwidth, Blackhole, Effect, Freeze, Latency, LimitData, Slice
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import EventQueue, Priority, Timer

_E = TypeVar("_E", bound=Effect)


class Packet(msgspec.Struct, eq=False):
    """A message on its way."""

    size_bytes: int
    deliver: Callable[["Packet"], None]
    left_bytes: float
    """Bytes that were not sent when it was last planned."""
    is_bulk: bool = False
    """Whether others pass it on its way."""
    begin_s: float = math.inf
    end_s: float = math.inf
    arrive_s: float = math.inf

    @property
    def took_s(self) -> float:
        """Time in which its bytes passed."""
        return self.end_s - self.begin_s


class Pipe:
    """One direction of one link."""

    def __init__(
        self, agenda: EventQueue, chance: Chance, *, latency_s: float, rate_bytes_per_s: float
    ) -> None:
        self._agenda, self._clock = agenda, agenda.clock
        self._chance = chance
        self._own_latency_s = latency_s
        self._own_rate = rate_bytes_per_s
        self._effects: dict[tuple[str, str], Effect] = {}
        self._packets: deque[Packet] = deque()
        self._next: Timer | None = None
        self._free_s = 0.0
        self._last_s = 0.0
        self.rate_bytes_per_s = rate_bytes_per_s
        """Present rate."""
        self.is_frozen = self.is_lossy = False
        self.carried_bytes = 0
        """Delivered since the beginning."""
        self.is_plain = True
        """Whether no effect is on it."""
        self._allowed: dict[str, int] = {}

    # ---------------------------------------------------------------- traffic

    def send(
        self, size_bytes: int, deliver: Callable[[Packet], None], *, is_bulk: bool = False
    ) -> None:
        """Put a message on its way; a black hole swallows it. Others pass one that is bulk."""
        if self.is_lossy:
            return
        packet = Packet(size_bytes, deliver, float(size_bytes), is_bulk)
        if self._packets and self._packets[-1].is_bulk and not is_bulk:
            self._pass(packet)
            return
        if not self.is_frozen:
            self._plan(packet, self._clock.time_s)
        self._packets.append(packet)
        if len(self._packets) == 1 and not self.is_frozen:
            self._await_first()

    def _pass(self, packet: Packet) -> None:
        """Put a message on its way before all bulk, which is at the end of the queue."""
        self._settle()
        bulk = sum(waiting.is_bulk for waiting in self._packets)
        self._packets.insert(len(self._packets) - bulk, packet)
        self._replan()

    def drop(self) -> None:
        """Lose everything that is on its way."""
        self._packets.clear()
        self._free_s = self._last_s = 0.0
        if self._next is not None:
            self._next.cancel()

    def delay_s(self) -> float | None:
        """Delay of an empty message beside the queue; None: it never arrives."""
        if self.is_plain:
            return self._own_latency_s
        return None if self.is_frozen or self.is_lossy else self._latency_s()

    def queue_s(self) -> float:
        """Time for which a message would wait behind others now."""
        queue_s = self._free_s - self._clock.time_s
        return queue_s if queue_s > 0.0 else 0.0

    @property
    def waiting(self) -> int:
        """Number of messages that have not arrived."""
        return len(self._packets)

    def _plan(self, packet: Packet, now_s: float) -> None:
        begin_s = packet.begin_s = now_s if now_s > self._free_s else self._free_s
        end_s = packet.end_s = self._free_s = begin_s + packet.left_bytes / self.rate_bytes_per_s
        latency_s = self._own_latency_s if self.is_plain else self._latency_s()
        arrive_s = end_s + latency_s
        packet.arrive_s = self._last_s = arrive_s if arrive_s > self._last_s else self._last_s

    def _latency_s(self) -> float:
        latency_s = self._own_latency_s
        for effect in self._of(Latency):
            jitter_s = effect.jitter_s
            latency_s += effect.mean_s
            if jitter_s:
                latency_s += self._chance.uniform(-jitter_s, jitter_s)
        return latency_s

    def _await_first(self) -> None:
        self._next = self._agenda.at(self._packets[0].arrive_s, self._arrive, Priority.ARRIVAL)

    def _arrive(self) -> None:
        packet = self._packets.popleft()
        if self._packets:
            self._await_first()
        self.carried_bytes += packet.size_bytes
        packet.deliver(packet)

    # ---------------------------------------------------------------- effects

    def shape(self, injection: str, effect: Effect) -> None:
        """Put an effect on it, or change the strength of the one of that kind and injection."""
        if isinstance(effect, LimitData):
            self._allowed.setdefault(injection, self.carried_bytes + effect.size_bytes)
        self._settle()
        self._effects[injection, effect.kind] = effect
        self._replan()

    def clear(self, injection: str) -> bool:
        """Take the effects of an injection from it; whether one of them was a black hole."""
        gone = [key for key in self._effects if key[0] == injection]
        had_hole = any(isinstance(self._effects[key], Blackhole) for key in gone)
        self._allowed.pop(injection, None)
        if gone:
            self._settle()
            for key in gone:
                del self._effects[key]
            self._replan()
        return had_hole

    def take_limit(self) -> bool:
        """Whether a limit of data is reached: the caller ends the streams, and it counts anew."""
        if not self._allowed or self.carried_bytes < min(self._allowed.values()):
            return False
        for (injection, _), effect in self._effects.items():
            if isinstance(effect, LimitData):
                self._allowed[injection] = self.carried_bytes + effect.size_bytes
        return True

    def _of(self, kind: type[_E]) -> list[_E]:
        return [effect for effect in self._effects.values() if isinstance(effect, kind)]

    def _settle(self) -> None:
        """Count the passed bytes of each packet until now."""
        now_s = self._agenda.now_s
        for packet in self._packets if not self.is_frozen else ():
            if packet.end_s <= now_s:
                packet.left_bytes = 0.0
            elif packet.begin_s < now_s:
                passed = (now_s - packet.begin_s) * self.rate_bytes_per_s
                packet.left_bytes = max(0.0, packet.left_bytes - passed)

    def _replan(self) -> None:
        """Plan everything that has not arrived anew, by the effects of now."""
        now_s = self._agenda.now_s
        rates = [one.rate_bytes_per_s for one in self._of(Bandwidth)]
        rates += [one.size_bytes / one.delay_s for one in self._of(Slice) if one.delay_s]
        self.rate_bytes_per_s = min([self._own_rate, *rates])
        self.is_plain = not self._effects
        self.is_frozen = bool(self._of(Freeze))
        self.is_lossy = bool(self._of(Blackhole))
        if self._next is not None:
            self._next.cancel()
        if self.is_lossy:
            self.drop()
        if self.is_frozen or not self._packets:
            return
        self._free_s, self._last_s = now_s, now_s
        for packet in self._packets:
            if packet.left_bytes:
                self._plan(packet, now_s)
            else:
                packet.arrive_s = self._last_s = max(packet.arrive_s, self._last_s)
        self._await_first()
