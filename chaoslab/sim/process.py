"""Simulated processes: what a learner and the syncer have in common.

    later(delay, act) ─► agenda ─► act(), unless it has ended; after it is resumed, if it is stopped
    tell(do, facts) ──► hooks: watch and go (`Points`), clock, and those of the subclass
    say(payload) ──► World.report, with the node's own time

A stopped process does nothing: what falls due meanwhile is done when it goes on, in its order. One
that waits at a point of its main thread still hears test hooks, which have a thread of their own.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from chaoslab.core.errors import HarnessBug
from chaoslab.core.events import Json
from chaoslab.core.payloads import ClockRead, LifeFields, NodeFields, Payload, PhaseReached
from chaoslab.core.protocol import Phase
from chaoslab.fleet.base import NodeSpec
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import Priority, Timer
from chaoslab.sim.node_clocks import NodeClocks
from chaoslab.sim.world import World

Act: TypeAlias = Callable[[], None]
Hook: TypeAlias = Callable[[Mapping[str, Json]], None]
HOOK_S = 0.002
"""Until a node has read a line of its standard input: a hook that lets go by itself does so a
little after the harness asks it to, as on a real machine."""


class Process:
    """One life of a node."""

    def __init__(
        self, world: World, spec: NodeSpec, incarnation: int, ended: Callable[["Process"], None]
    ) -> None:
        """`ended` is called when it ends by itself, with `exit_code` set."""
        self.world = world
        self.clock = world.clock
        """Simulated time; to ask it costs less than `now_s`."""
        self.spec = spec
        self.name, self.incarnation = spec.name, incarnation
        self.whose: LifeFields = {"learner": spec.name, "incarnation": incarnation}
        """Fields of the events of a learner."""
        self.flags = flags_of(spec.command)
        self.chance = Chance(world.seed, spec.name, incarnation)
        self.started_s = world.agenda.now_s
        self.is_alive, self.is_stopped = True, False
        self.stopped_at_s = 0.0
        """Time at which it was stopped last."""
        self._rested_s = 0.0
        self.exit_code = 0
        self._ended = ended
        self._backlog: deque[Act] = deque()
        """Overdue acts of its main thread, from while it was stopped or waiting."""
        self._beside: deque[Act] = deque()
        """Overdue acts of its other threads, from while it was stopped."""
        self.is_waiting = False
        """Whether its main thread waits at a point of the protocol."""
        self.points = Points(self)
        self._clocks = NodeClocks(world.clock, self._read_clocks, self.later)
        self._hooks: dict[str, Hook] = {
            "watch": self.points.watch, "go": self.points.let_go, "clock": self._clocks.apply_hook,
        }  # fmt: skip
        self._releases: dict[str, Timer] = {}

    # ---------------------------------------------------------------- life

    def begin(self) -> None:
        """Note its start."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop it, as by SIGSTOP."""
        if not self.is_stopped:
            self.is_stopped, self.stopped_at_s = True, self.now_s

    def resume(self) -> None:
        """Resume it, and do what fell due meanwhile."""
        if not self.is_stopped:
            return
        self.is_stopped = False
        self._rested_s += self.now_s - self.stopped_at_s
        self.catch_up()

    def catch_up(self) -> None:
        """Do what fell due, as far as it can go on."""
        while self._beside and self.answers:
            self._beside.popleft()()
        while self._backlog and self.answers and not self.is_waiting:
            self._backlog.popleft()()

    def end(self) -> None:
        """End it: nothing of it happens any more."""
        self.is_alive = False
        self._backlog.clear()
        self._beside.clear()
        if self.world.cores is not None:
            self.world.cores.drop(self)

    def exit(self, code: int = 0) -> None:
        """Let it exit by itself."""
        self.exit_code = code
        self._ended(self)

    def ask_to_end(self) -> bool:
        """SIGTERM: whether it handles that, and ends in order."""
        return False

    @property
    def cpu_s(self) -> float:
        """Time for which it was not stopped, as if it computed all the time."""
        until_s = self.stopped_at_s if self.is_stopped else self.now_s
        return until_s - self.started_s - self._rested_s

    @property
    def answers(self) -> bool:
        """Whether it lives and is not stopped."""
        return self.is_alive and not self.is_stopped

    # ---------------------------------------------------------------- work

    @property
    def now_s(self) -> float:
        """Simulated time."""
        return self.clock.time_s

    @property
    def node_s(self) -> float:
        """Seconds since it started, by its own clock, which a fault may let drift."""
        return self._clocks.monotonic_s

    def takes(self, mean_s: float) -> float:
        """Seconds that something takes this time."""
        return mean_s

    def round_work_s(self, cost: str) -> float:
        """Seconds that this work of a round takes this time, by quantiles where costs have them."""
        quantiles = self.world.costs.quantiles.get(cost)
        if quantiles is not None:
            return self.chance.among(quantiles)
        return self.takes(getattr(self.world.costs, cost))

    def later(self, delay_s: float, act: Act, priority: Priority = Priority.WORK) -> Timer:
        """Do something in this many seconds, if it lives then."""
        return self.world.agenda.after(delay_s, partial(self.do, act), priority)

    def work(self, seconds: float, act: Act) -> None:
        """Do something once it has computed for this long; longer, if others share its cores."""
        if self.world.cores is None:
            self.later(seconds, act)
        else:
            self.world.cores.begin(self, seconds, partial(self.do, act))

    def do(self, act: Act) -> None:
        """Do it now; after a resume, if it is stopped or waiting; never, if it has ended."""
        if not self.is_alive:
            return
        if self.is_stopped or self.is_waiting:
            self._backlog.append(act)
        else:
            act()

    def _do_beside(self, act: Act) -> None:
        """Do it on another thread than the main one."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._beside.append(act)
        else:
            act()

    def later_beside(self, delay_s: float, act: Act) -> Timer:
        """Do something in this many seconds, even while the main thread is waiting."""
        return self.world.agenda.after(delay_s, partial(self._do_beside, act))

    def every(self, period_s: float, act: Act) -> None:
        """Do something again and again."""

        def again() -> None:
            act()
            self.later(period_s, again)

        self.later(period_s, again)

    def say(self, said: Payload) -> None:
        """Print an event."""
        self.world.report(self.name, said, self._clocks.monotonic_s)

    # ---------------------------------------------------------------- hooks

    def on(self, do: str, hook: Hook) -> None:
        """Add a test hook."""
        self._hooks[do] = hook

    def tell(self, do: str, facts: Mapping[str, Json]) -> None:
        """A line on its standard input; a hook that it does not know is passed over."""
        hook, facts = self._hooks.get(do), dict(facts)
        for_s = facts.pop("for_s", None)
        if hook is None:
            return
        self.later_beside(HOOK_S, lambda: hook(facts))
        if (release := self._releases.pop(do, None)) is not None:
            release.cancel()
        if isinstance(for_s, int | float):
            self._releases[do] = self.later_beside(HOOK_S + for_s, lambda: hook({}))

    def _read_clocks(self) -> None:
        """Report what its clocks show."""
        wall_s, monotonic_s = self._clocks.wall_s, self._clocks.monotonic_s
        self.say(ClockRead(**self.about(), wall_s=wall_s, monotonic_s=monotonic_s))

    def about(self) -> NodeFields:
        """Fields of what it says of itself."""
        return {"node": self.name, "learner": "", "incarnation": self.incarnation}


@dataclass(slots=True, eq=False)
class _Wait:
    """A point of the protocol at which a process is waiting."""

    then: Act
    is_main: bool
    timer: Timer | None = None


class Points:
    """The points of the protocol of one process: which are watched, and at which it waits."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._watched: dict[Phase, float] = {}
        """How long it is to wait at each."""
        self._waiting: list[_Wait] = []

    def is_watched(self, phase: Phase) -> bool:
        """Whether a point is to be announced."""
        return phase in self._watched

    def reach(self, phase: Phase, then: Act, *, is_main: bool, **place: int | None) -> None:
        """It is announced if it is watched; `then` comes after its wait. `is_main`: the main thread
        waits meanwhile, and nothing else of it goes on.
        """
        wait_s = self._watched.pop(phase, None)
        if wait_s is None:
            then()
            return
        process, is_waiting = self._process, wait_s > 0
        process.say(PhaseReached(**process.about(), phase=phase, is_waiting=is_waiting, **place))
        if not is_waiting:
            then()
            return
        wait = _Wait(then, is_main)
        wait.timer = process.later_beside(wait_s, lambda: self._let_go(wait))
        self._waiting.append(wait)
        process.is_waiting = process.is_waiting or is_main

    def _let_go(self, wait: _Wait) -> None:
        if wait not in self._waiting:
            return
        self._waiting.remove(wait)
        if wait.timer is not None:
            wait.timer.cancel()
        if wait.is_main:
            self._process.is_waiting = False
            wait.then()
            self._process.catch_up()
        else:
            self._process.do(wait.then)

    def watch(self, facts: Mapping[str, Json]) -> None:
        """The hook: watch a point; without facts none any more."""
        if not facts:
            self._watched.clear()
            self.let_go({})
            return
        wait_s = facts.get("wait_s")
        asked_s = float(wait_s) if isinstance(wait_s, int | float) else 0.0
        self._watched[Phase(str(facts["phase"]))] = max(0.0, asked_s)

    def let_go(self, _: Mapping[str, Json]) -> None:
        """The hook: wait at none any more."""
        for wait in tuple(self._waiting):
            self._let_go(wait)


def flags_of(command: Sequence[str]) -> Mapping[str, str]:
    """The flags of a node's command line, each with its value; empty for a switch."""
    found: dict[str, str] = {}
    for word, following in zip(command, (*command[1:], "--"), strict=True):
        if word.startswith("--"):
            found[word[2:]] = "" if following.startswith("--") else following
    return found


def need(flags: Mapping[str, str], name: str) -> str:
    """A flag that every command line has; HarnessBug without it."""
    if name not in flags:
        raise HarnessBug(f"the command line of a simulated node has no --{name}")
    return flags[name]
