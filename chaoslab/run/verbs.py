"""Verbs of a fleet, carried out beside the run loop, which never waits for one; its chores, too.

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
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, Final, Self, TypeAlias, TypeVar

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.protocols import HasChores

T = TypeVar("T")
Code: TypeAlias = Coroutine["_Pending", None, None]
_Job: TypeAlias = "tuple[Future[Any], AbstractContextManager[None], Callable[[], Any]]"
LOOK_S: Final = 0.01
"""Interval of the looks whether verbs have returned, while some are under way."""
_MOMENT_S: Final = 0.005
"""The loop lets a verb have this long before it turns to something else."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pending:
    """A verb that has not returned."""

    names: frozenset[str]
    done: "Future[Any]"
    late_s: float
    """When it is given up."""

    def __await__(self) -> Generator["_Pending", None, None]:
        yield self


@dataclass(slots=True, kw_only=True)
class Verbs:
    """The verbs of one run. A context manager, left after the fleet.

    There are as many workers as there were verbs and chores at once. They live until it is left: a
    node of this machine dies with the thread that started it. They keep no process from its exit.
    """

    fleet: Fleet
    clock: Clock
    _pending: dict[_Pending, Code] = field(default_factory=dict)
    """With what waits for it."""
    _late: list[_Pending] = field(default_factory=list)
    """Given up, and not returned yet."""
    _jobs: "SimpleQueue[_Job | None]" = field(default_factory=SimpleQueue)
    _idle: Semaphore = field(default_factory=lambda: Semaphore(0))
    _workers: int = 0
    _is_over: bool = False

    def __enter__(self) -> Self:
        if isinstance(self.fleet, HasChores):
            self.fleet.use_workers(lambda _nodes, chore: self._handed_over(chore, nullcontext()))
        return self

    def __exit__(self, *_: object) -> None:
        """What is still under way fails, and its worker ends when it has returned."""
        self._is_over = True
        while self._pending:
            self.begin(self._pending.popitem()[1], FleetError("the run is over"))
        for _number in range(self._workers):
            self._jobs.put(None)

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

    def begin(self, code: Code, error: FleetError | None = None) -> None:
        """Run code that calls verbs, up to the first one that takes more than a moment; with an
        `error`, code whose verb was given up.
        """
        with suppress(StopIteration):
            pending = code.throw(error) if error else code.send(None)
            self._pending[pending] = code

    def turn(self) -> bool:
        """Go on with the code whose verb has returned or is given up; whether there was any."""
        now_s = self.clock.now_s()
        ready = [one for one in self._pending if one.done.done() or now_s >= one.late_s]
        for one in ready:
            code, late = self._pending.pop(one), None
            if not one.done.done():
                self._late.append(one)
                late = FleetError(f"no return within {self.fleet.verb_s:g} s")
            self.begin(code, late)
        return bool(ready)

    async def call(self, names: Iterable[str], verb: Callable[[], T], *, until_s: float = 0.0) -> T:
        """Call a verb for these nodes and wait for its result; its own error, or FleetError.

        It is known that it will not return before the clock shows `until_s`.
        """
        if self._is_over:
            raise FleetError("the run is over")
        if not self.fleet.verb_s:
            return verb()
        nodes, now_s = frozenset(names), self.clock.now_s()
        if isinstance(self.fleet, HasChores):
            done = self._handed_over(verb, self.fleet.acting(nodes))
        else:
            done = self._handed_over(verb, nullcontext())
        wait([done], timeout=max(0.0, until_s - now_s) + _MOMENT_S)
        if not done.done():
            late_s = now_s + self.fleet.verb_s
            await _Pending(names=nodes, done=done, late_s=late_s)
        return done.result()

    def _handed_over(
        self, work: Callable[[], T], context: AbstractContextManager[None]
    ) -> "Future[T]":
        """It will be done by a worker."""
        done = Future[T]()
        if not self._idle.acquire(blocking=False):
            self._workers += 1
            Thread(target=self._work, name="verb", daemon=True).start()
        self._jobs.put((done, context, work))
        return done

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            done, context, work = job
            try:
                with context:
                    found = work()
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                self._idle.release()
                done.set_exception(error)
            else:
                self._idle.release()
                done.set_result(found)
