"""Verbs of a fleet, carried out beside the run loop, which never waits for one.

    code of the loop ── await verbs.call(names, verb) ──► a worker thread ──► Fleet
        ▲ goes on at once if that took a moment only                           │
        └─ else a later `turn` goes on with it: the verb has returned ◄────────┘
                           or FleetError into it: no return within `Fleet.verb_s`

Code that calls verbs is a coroutine, so it reads as a sequence of calls. At most one verb is under
way for each node: what is due for a node in `busy` is left until that has returned. Where verbs
take no time (`verb_s` is 0), as in a simulation, they are called in place.
"""

from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Semaphore, Thread
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import HasChores

T = TypeVar("T")
Code: TypeAlias = Coroutine["_Pending", None, None]
LOOK_S: Final = 0.01
"""Interval of the looks whether verbs have returned, while some are under way."""
_MOMENT_S: Final = 0.005
"""The loop lets a verb have this long before it turns to something else."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Pending:
    """A verb that has not returned."""

    names: frozenset[str]
    done: "Future[Any]"
    late_s: float
    """When it is given up."""
    code: Code | None = None
    """What waits for it."""

    def __await__(self) -> Generator["_Pending", None, None]:
        yield self


class _Workers:
    """Threads, as many as there were verbs at once. A node of this machine dies with the thread
    that started it, so they live until `close`. They keep no process from its exit.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle, self._count = Semaphore(0), 0

    def submit(self, verb: Callable[[], T]) -> "Future[T]":
        """Carry it out on one that is idle, or a new one."""
        done: Future[T] = Future()

        def job() -> None:
            try:
                found = verb()
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                self._idle.release()
                done.set_exception(error)
            else:
                self._idle.release()
                done.set_result(found)

        if not self._idle.acquire(blocking=False):
            self._count += 1
            Thread(target=self._serve, name="verb", daemon=True).start()
        self._jobs.put(job)
        return done

    def close(self) -> None:
        """End them, one whose verb has not returned as soon as it has."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


@dataclass(slots=True, kw_only=True)
class Verbs:
    """The verbs of one run. A context manager, left after the fleet: its workers end."""

    fleet: Fleet
    clock: Clock
    _pending: list[_Pending] = field(default_factory=list)
    _late: list[_Pending] = field(default_factory=list)
    """Given up, and not returned yet."""
    _workers: _Workers = field(default_factory=_Workers)
    _is_over: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What is still under way fails."""
        self._is_over = True
        while self._pending:
            self._go_on(self._pending.pop(0), FleetError("the run is over"))
        self._workers.close()

    @property
    def are_pending(self) -> bool:
        """Whether code waits for a verb."""
        return bool(self._pending)

    @property
    def busy(self) -> frozenset[str]:
        """Names of the nodes for which a verb is under way."""
        return frozenset[str]().union(*(one.names for one in self._pending))

    def late(self, names: Iterable[str]) -> str:
        """Which of these nodes a verb was given up for that may still take effect; empty: none."""
        self._late = [one for one in self._late if not one.done.done()]
        found = sorted(set(names) & set[str]().union(*(one.names for one in self._late)))
        return f"a verb for {', '.join(found)} has not returned yet" if found else ""

    async def call(self, names: Iterable[str], verb: Callable[[], T], *, until_s: float = 0.0) -> T:
        """Call a verb for these nodes and wait for its result; its own error, or FleetError.

        It is known that it will not return before the clock shows `until_s`.
        """
        if self._is_over:
            raise FleetError("the run is over")
        if not self.fleet.verb_s:
            return verb()
        done, now_s = self._workers.submit(lambda: self._carried_out(verb)), self.clock.now_s()
        wait([done], timeout=max(0.0, until_s - now_s) + _MOMENT_S)
        if not done.done():
            late_s = now_s + self.fleet.verb_s
            await _Pending(names=frozenset(names), done=done, late_s=late_s)
        return done.result()

    def begin(self, code: Code) -> None:
        """Run code that calls verbs, up to the first one that takes more than a moment."""
        self._run(code, lambda: code.send(None))

    def turn(self) -> bool:
        """Go on with the code whose verb has returned or is given up; whether there was any."""
        now_s = self.clock.now_s()
        ready = [one for one in self._pending if one.done.done() or now_s >= one.late_s]
        for one in ready:
            self._pending.remove(one)
            late = None
            if not one.done.done():
                self._late.append(one)
                late = FleetError(f"no return within {self.fleet.verb_s:g} s")
            self._go_on(one, late)
        return bool(ready)

    def _go_on(self, one: _Pending, error: FleetError | None) -> None:
        if (code := one.code) is not None:
            self._run(code, lambda: code.throw(error) if error else code.send(None))

    def _run(self, code: Code, step: Callable[[], _Pending]) -> None:
        try:
            pending = step()
        except StopIteration:
            return
        pending.code = code
        self._pending.append(pending)

    def _carried_out(self, verb: Callable[[], T]) -> T:
        with self.fleet.acting() if isinstance(self.fleet, HasChores) else nullcontext():
            return verb()
