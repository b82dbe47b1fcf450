"""Waits of the code of real nodes, on the virtual clock (`diloco.node.waits`).

    drive(code) ─► code runs ─► await Until(arrange) ─► arrange(go) ─► … go() ─► code runs …

A process that is stopped or has ended lets go of nothing: `Process.do` keeps it for later.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from chaoslab.core.errors import HarnessBug
from chaoslab.core.protocol import Phase
from chaoslab.diloco.syncer.work import Job, Stage, Then
from chaoslab.sim.clock import Timer
from chaoslab.sim.process import Act, Process

T = TypeVar("T")
_LEAST_S = 1e-6
"""Least wait: a time that is reached may be missed by a rounding, and real time would have gone on
meanwhile."""
_ON_MAIN = frozenset({Phase.PUBLISH})
"""Points that a main thread waits at, so that nothing else of it goes on."""


class Until:
    """Awaited: suspends the code until `arrange` has its argument called."""

    __slots__ = ("_arrange",)

    def __init__(self, arrange: Callable[[Act], object]) -> None:
        self._arrange = arrange

    def __await__(self) -> Generator[Callable[[Act], object], None, None]:
        yield self._arrange


def drive(code: Coroutine[Any, Any, None], resume: Callable[[Act], None] | None = None) -> None:
    """Run code up to its next wait, and have that continue it; to its end.

    `resume` is given what goes on after a wait, for a thread that may hang; None: it goes on.
    """

    def go() -> None:
        try:
            arrange = code.send(None)
        except StopIteration:
            return
        arrange(go_on)

    go_on = go if resume is None else partial(resume, go)
    go()


async def sleep(process: Process, seconds: float) -> None:
    """Let a while pass."""
    await Until(partial(process.later, max(seconds, _LEAST_S)))


async def work(process: Process, seconds: float) -> None:
    """Compute for so long; longer, if others share the cores."""
    await Until(partial(process.work, seconds))


class Points:
    """Protocol points of a simulated process: `diloco.node.phases.Points`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def reach(
        self,
        phase: Phase,
        *,
        round: int | None = None,  # noqa: A002 - as the payload calls it
        fragment: int | None = None,
        version: int | None = None,
    ) -> None:
        """See `phases.Points.reach`."""
        points, is_main = self._process.points, phase in _ON_MAIN
        if not points.is_watched(phase):
            return
        place = {"round": round, "fragment": fragment, "version": version}
        await Until(lambda go: points.reach(phase, go, is_main=is_main, **place))


class Jobs:
    """Long jobs of a simulated syncer, each stage at its cost: `diloco.syncer.work.Jobs`."""

    def __init__(self, process: Process, wake: Act) -> None:
        """`wake` is called when a job has ended."""
        self._process, self._wake = process, wake
        self._queue: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        """Jobs in order, the first of which is being done."""
        self._ended: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._at_once = 0
        self._when_done: Act | None = None
        self.is_closing = False
        """See `work.Jobs`."""

    def at_once(self, job: Callable[[], T], then: Then[T]) -> None:
        """See `work.Jobs`; a push is decoded."""

        def end() -> None:
            found = job()
            self._at_once -= 1
            self._end(lambda: then(found))

        self._at_once += 1
        self._process.work(self._process.world.costs.decode_s, end)

    def in_order(self, job: Job[T], then: Then[T]) -> None:
        """See `work.Jobs`."""

        async def whole() -> None:
            found = await job()
            self._queue.popleft()
            self._end(lambda: then(found))
            if self._queue:
                drive(self._queue[0]())

        self._queue.append(whole)
        if len(self._queue) == 1:
            drive(whole())

    async def finish(self) -> None:
        """See `work.Jobs`."""
        while self._ended:
            await self._ended.popleft()()

    async def close(self) -> None:
        """See `work.Jobs`. A process that has ended has no jobs any more."""
        self.is_closing = True
        if self._process.is_alive and (self._queue or self._at_once):
            await Until(self._await_all)

    async def stage(self, stage: Stage, do: Callable[[], T]) -> T:
        """See `work.Jobs`."""
        process, seconds = self._process, self._process.round_work_s(f"{stage}_s")
        if stage is Stage.STORE:
            await sleep(process, seconds)
        else:
            await work(process, seconds)
        return do()

    async def pause(self, seconds: float) -> bool:
        """See `work.Jobs`."""
        if not self.is_closing:
            await self.sleep(seconds)
        return self.is_closing

    async def sleep(self, seconds: float) -> None:
        """See `work.Jobs`."""
        await sleep(self._process, seconds)

    def flag(self) -> "Flag":
        """See `work.Jobs`."""
        return Flag(self._process)

    def _end(self, then: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._ended.append(then)
        self._wake()
        if self._when_done is not None and not self._queue and not self._at_once:
            self._process.later(0.0, self._when_done)

    def _await_all(self, go: Act) -> None:
        if self._when_done is not None:
            raise HarnessBug("jobs of a simulated syncer were closed twice")
        self._when_done = go


class Wakeable:
    """A wait of a main thread that ends after a while, or as soon as it is woken."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._go: Act | None = None
        self._is_woken = False
        self._timer: Timer | None = None
        self._due_s = float("inf")

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._is_woken = True
        self._process.do(self._resume)

    async def wait(self, seconds: float) -> None:
        """Wait, at most for so long; it may be less."""
        if not self._is_woken:
            await Until(lambda go: self._begin(go, seconds))
        self._is_woken = False

    def _begin(self, go: Act, seconds: float) -> None:
        self._go, seconds = go, max(seconds, _LEAST_S)
        due_s = self._process.clock.time_s + seconds
        if due_s >= self._due_s:  # woken too early once, rather than a timer for each wait
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_s, self._timer = due_s, self._process.later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._due_s, self._timer = float("inf"), None
        self._resume()

    def _resume(self) -> None:
        if self._go is not None:
            go, self._go = self._go, None
            go()


class Flag:
    """What one part of a process waits for and another sets: `diloco.node.waits.Flag`."""

    def __init__(self, process: Process) -> None:
        self._process, self._waiting = process, Wakeable(process)
        self._is_set = False

    def is_set(self) -> bool:
        """See `waits.Flag`."""
        return self._is_set

    def set(self) -> None:
        """See `waits.Flag`. Who waits goes on after who sets it, as another thread does."""
        if not self._is_set:
            self._is_set = True
            self._process.later(0.0, self._waiting.wake)

    def clear(self) -> None:
        """See `waits.Flag`."""
        self._is_set = False

    async def wait(self, seconds: float) -> bool:
        """See `waits.Flag`; it may be less."""
        if not self._is_set:
            await self._waiting.wait(seconds)
        return self._is_set


class Waits:
    """Waits of the parts of a process: `diloco.node.waits.Waits`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_s(self) -> float:
        """See `waits.Waits`."""
        return self._process.node_s

    def flag(self) -> Flag:
        """See `waits.Waits`."""
        return Flag(self._process)

    def begin(self, name: str, code: Callable[[], Coroutine[Any, Any, None]]) -> None:  # noqa: ARG002
        """See `waits.Waits`."""
        drive(code())
