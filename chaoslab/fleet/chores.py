"""Chores of a fleet: acts beside reading that `poll` finds due, and what keeps verbs off them.

    poll ── begin(nodes, chore) ──► a worker thread, unless a verb or chore is at one of these nodes
         ◄── failed ── errors of the chores that have ended
    worker thread ── with acting(nodes): verb ──► once no chore is at one of these nodes

Neither was written to be interrupted by the other. `poll` waits for no chore, and a verb only for
those of its own nodes. Where no workers were lent, as in a host agent, which polls and calls verbs
on one thread, chores are done in place.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Condition
from typing import Any, TypeAlias, TypeVar

from chaoslab.core.errors import FleetError

T = TypeVar("T")
Workers: TypeAlias = Callable[[frozenset[str], Callable[[], object]], "Future[Any]"]
"""Does something for these nodes on a thread that outlives the fleet."""


class Chores:
    """Those of one fleet, which is a `protocols.HasChores` by it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._verbs: list[frozenset[str]] = []
        self._chores: list[frozenset[str]] = []
        self._verbs_begun = 0
        self._begun: list[Future[Any]] = []
        self.workers: Workers | None = None
        """Who does them; None: they are done in place."""

    @property
    def calm(self) -> int | None:
        """Number of verbs so far; None while one is carried out."""
        with self._changed:
            return None if self._verbs else self._verbs_begun

    @property
    def busy(self) -> frozenset[str]:
        """Names of the nodes at which one is carried out."""
        with self._changed:
            return frozenset[str]().union(*self._chores)

    @contextmanager
    def acting(self, nodes: Iterable[str]) -> Iterator[None]:
        """While a verb for these nodes is carried out; it waits for chores at them."""
        mine = frozenset(nodes)
        with self._changed:
            self._changed.wait_for(lambda: all(map(mine.isdisjoint, self._chores)))
            self._verbs.append(mine)
            self._verbs_begun += 1
        try:
            yield
        finally:
            self._leave(self._verbs, mine)

    @contextmanager
    def alone(self, nodes: Iterable[str]) -> Iterator[None]:
        """While a chore is carried out on a thread of the fleet's own; it waits for its turn."""
        mine = frozenset(nodes)
        with self._changed:
            self._changed.wait_for(lambda: self._is_free(mine))
            self._chores.append(mine)
        try:
            yield
        finally:
            self._leave(self._chores, mine)

    def begin(self, nodes: Iterable[str], chore: Callable[[], object]) -> None:
        """Carry it out, unless a verb or another chore is at one of these nodes: it is left to a
        later call.
        """
        mine = frozenset(nodes)
        with self._changed:
            if not self._is_free(mine):
                return
            self._chores.append(mine)

        def work() -> None:
            try:
                chore()
            finally:
                self._leave(self._chores, mine)

        if self.workers is None:
            work()
        else:
            self._begun.append(self.workers(mine, work))

    def failed(self) -> list[FleetError]:
        """Errors of the chores that have ended since the last call; any other than these is raised
        here.
        """
        ended, errors = [one for one in self._begun if one.done()], list[FleetError]()
        self._begun = [one for one in self._begun if one not in ended]
        for one in ended:
            try:
                one.result()
            except FleetError as error:
                errors.append(error)
        return errors

    def _is_free(self, nodes: frozenset[str]) -> bool:
        return all(map(nodes.isdisjoint, (*self._verbs, *self._chores)))

    def _leave(self, place: list[frozenset[str]], nodes: frozenset[str]) -> None:
        with self._changed:
            place.remove(nodes)
            self._changed.notify_all()


def taken_out(found: list[T]) -> list[T]:
    """What is in a list to which other threads append; it is not in it any more."""
    taken = found[:]
    del found[: len(taken)]
    return taken
