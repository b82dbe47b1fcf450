"""Cores that all nodes of a simulation share, as processes of one machine do.

    begin(owner, 0.8 s of work) ─┐   n pieces of work under way: each goes on at min(1, cores / n)
    begin(owner, 0.03 s)        ─┴─► agenda: the next one that is done ─► act()

Every piece of work takes one core at most, and all get equal shares. What a scheduler does besides
(slices of time, priorities, caches) is not modelled.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from chaoslab.sim.clock import EventQueue, Timer


@dataclass(slots=True, eq=False)
class _Work:
    """A piece of work; `act` is None once its owner has ended."""

    owner: object
    act: Callable[[], None] | None


class Cores:
    """Cores of a machine, and the work that they have."""

    def __init__(self, agenda: EventQueue, cores: float) -> None:
        self._agenda, self._cores = agenda, cores
        self._heap: list[tuple[float, int, _Work]] = []
        """Work under way: total service at its end, then order of begin."""
        self._number = 0
        self._busy = 0
        """Pieces of work under way."""
        self._served_s = 0.0
        """Work done until now for an owner that was there all the time."""
        self._since_s = 0.0
        """Time of that count."""
        self._next: Timer | None = None

    @property
    def _rate(self) -> float:
        """Seconds of each piece of work that are done in a second."""
        return min(1.0, self._cores / self._busy)

    def begin(self, owner: object, work_s: float, act: Callable[[], None]) -> None:
        """Begin this many seconds of work on one core, then call `act`."""
        self._settle()
        self._busy += 1
        self._number += 1
        heapq.heappush(self._heap, (self._served_s + work_s, self._number, _Work(owner, act)))
        self._await()

    def drop(self, owner: object) -> None:
        """Drop the work of a process that has ended."""
        self._settle()
        for _, _, work in self._heap:
            if work.owner is owner and work.act is not None:
                work.act = None
                self._busy -= 1
        self._await()

    def _settle(self) -> None:
        """Count the work done until now."""
        now_s = self._agenda.now_s
        if self._busy:
            self._served_s += (now_s - self._since_s) * self._rate
        self._since_s = now_s

    def _await(self) -> None:
        """Plan the end of the work that is done next, by how many share the cores now."""
        if self._next is not None:
            self._next.cancel()
        while self._heap and self._heap[0][2].act is None:
            heapq.heappop(self._heap)
        if self._heap:
            left_s = max(0.0, self._heap[0][0] - self._served_s)
            self._next = self._agenda.after(left_s / self._rate, self._done)

    def _done(self) -> None:
        """The first piece of work is done."""
        self._settle()
        due_s, _, work = heapq.heappop(self._heap)
        self._served_s = max(self._served_s, due_s)  # a rounding less, and it would never be done
        self._busy -= 1
        self._next = None
        self._await()
        if work.act is not None:
            work.act()
