"""Verbs of a fleet, carried out beside the run loop, which never waits for one; its chores, too.

    code of the loop ── await verbs.call(names, verb) ──► a worker thread ──► Fleet
        ▲ goes on at once if that took a moment only                           │
        └─ else a later `turn` goes on with it: the verb has returned ◄────────┘
                           or FleetError into it: no return within `Fleet.verb_s`

Code that calls verbs is a coroutine, so it reads as a sequence of calls. At most one verb is under
way for each node: what is due for a node in `busy` is left until that has returned. Where verbs
take no time (`verb_s` is 0), as in a simulation, they are called in place. A run that ends waits
for a verb `LEAVE_S` at most, and then calls none for its nodes but to end them (`leave`).
"""

from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from math import inf
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
LEAVE_S: Final = 45.0
"""Longest wait of a run that ends for a verb; to end a launcher for a dead worker takes 40 s."""
_MOMENT_S: Final = 0.005
"""The loop lets a verb have this long before it turns to something else."""


class GivenUp(FleetError):
    """A run that ends does not wait for a verb, or does not call it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pending:
    """A verb that has not returned."""

    what: str
    names: frozenset[str]
    done: "Future[Any]"
    begun_s: float

    def __str__(self) -> str:
        return f"{self.what} on {', '.join(sorted(self.names))}" if self.names else self.what

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
    _leaves_s: float = inf
    """Since when the run ends."""
    _leave_s: float = LEAVE_S
    """Longest wait for a verb since then."""
    _left: dict[str, str] = field(default_factory=dict)
    """Nodes for which none is called any more, but to end them, and why."""
    _jobs: "SimpleQueue[_Job | None]" = field(default_factory=SimpleQueue)
    _idle: Semaphore = field(default_factory=lambda: Semaphore(0))
    _workers: int = 0
    _is_over: bool = False

    def __enter__(self) -> Self:
        if isinstance(self.fleet, HasChores):
            self.fleet.use_workers(lambda _, chore: self.do(chore))
        return self

    def __exit__(self, *_: object) -> None:
        """What is still under way fails, and its worker ends when it has returned."""
        self._is_over, self._leaves_s = True, self.clock.now_s()
        try:
            while self._pending:
                self._give_up(next(iter(self._pending)))
        finally:
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

    def late(self, names: Iterable[str] | None = None) -> str:
        """Which verbs were given up for these nodes, or any, and may still take effect; empty: none
        was.
        """
        nodes = None if names is None else set(names)
        self._late = [one for one in self._late if not one.done.done()]
        late = [str(one) for one in self._late if nodes is None or one.names & nodes]
        return f"{'; '.join(late)}: not returned yet" if late else ""

    @property
    def awaited(self) -> str:
        """The verb that is under way for the longest time, and how long; empty without any."""
        first = next(iter(self._pending), None)
        return f"{first}, {self.clock.now_s() - first.begun_s:.0f} s" if first else ""

    def leave(self, *, within_s: float = LEAVE_S) -> None:
        """The run ends: a verb has so long from now on, and if it takes longer, none is called for
        its nodes any more but to end them.
        """
        self._leaves_s = min(self._leaves_s, self.clock.now_s())
        self._leave_s = min(self._leave_s, within_s)

    def _is_late(self, one: _Pending) -> bool:
        leave_s = max(one.begun_s, self._leaves_s) + self._leave_s
        return self.clock.now_s() >= min(one.begun_s + self.fleet.verb_s, leave_s)

    def _give_up(self, one: _Pending) -> None:
        code, waited_s = self._pending.pop(one), self.clock.now_s() - one.begun_s
        self._late.append(one)
        said = f"{one}: no return within {waited_s:.0f} s"
        if self._leaves_s == inf:
            self.begin(code, FleetError(said))
            return
        said += ", and the run ends"
        self._left |= dict.fromkeys(one.names, said)
        self.begin(code, GivenUp(said))

    def begin(self, code: Code, error: FleetError | None = None) -> None:
        """Run code that calls verbs, up to the first one that takes more than a moment; with an
        `error`, code whose verb was given up.
        """
        with suppress(StopIteration):
            pending = code.throw(error) if error else code.send(None)
            self._pending[pending] = code

    def turn(self) -> bool:
        """Go on with the code whose verb has returned or is given up; whether there was any."""
        ready = [one for one in self._pending if one.done.done() or self._is_late(one)]
        for one in ready:
            if one.done.done():
                self.begin(self._pending.pop(one))
            else:
                self._give_up(one)
        return bool(ready)

    async def call(
        self,
        names: Iterable[str],
        verb: Callable[[], T],
        *,
        what: str,
        until_s: float = 0.0,
        is_last: bool = False,
    ) -> T:
        """Call a verb for these nodes and wait for its result; its own error, or FleetError.

        It is known that it will not return before the clock shows `until_s`. `what` names it.
        `is_last`: it ends them, and is called for those that were left, too.
        """
        nodes, now_s = frozenset(names), self.clock.now_s()
        if self._is_over:
            raise GivenUp("the run is over")
        if (left := sorted(self._left.keys() & nodes)) and not is_last:
            raise GivenUp(self._left[left[0]])
        if not self.fleet.verb_s:
            return verb()
        done, chores = Future[T](), self.fleet if isinstance(self.fleet, HasChores) else None
        self._hire()
        self._jobs.put((done, chores.acting(nodes) if chores else nullcontext(), verb))
        wait([done], timeout=max(0.0, until_s - now_s) + _MOMENT_S)
        if not done.done():
            await _Pending(what=what, names=nodes, done=done, begun_s=max(now_s, until_s))
        return done.result()

    def do(self, work: Callable[[], T]) -> "Future[T]":
        """Begin what is no verb of nodes, on a thread that lives until this is left; in place where
        verbs take no time.
        """
        done = Future[T]()
        if self.fleet.verb_s:
            self._hire()
            self._jobs.put((done, nullcontext(), work))
        else:
            done.set_result(work())
        return done

    def note_late(self, what: str, done: "Future[Any]") -> None:
        """Nothing waits any more for something that was begun by `do`."""
        late = _Pending(what=what, names=frozenset(), done=done, begun_s=self.clock.now_s())
        self._late.append(late)

    def _hire(self) -> None:
        """A worker for the next job: one that is idle, or another."""
        if not self._idle.acquire(blocking=False):
            self._workers += 1
            Thread(target=self._work, name="verb", daemon=True).start()

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
