"""Simulated processes: what a learner and the syncer have in common.

    later(delay, act) ─► agenda ─► act(), unless it has ended; after it is resumed, if it is stopped
    tell(do, facts) ──► hooks: watch and go (protocol points), clock, and those of the subclass
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
from chaoslab.diloco.node.clocks import READ_S
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


@dataclass(slots=True)
class _Watch:
    wait_s: float


@dataclass(slots=True, eq=False)
class _Wait:
    """A point of the protocol at which it is waiting."""

    then: Act
    is_main: bool
    timer: Timer | None = None


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
        self._hooks: dict[str, Hook] = {
            "watch": self._watch, "go": self._let_all_go, "clock": self._set_clocks,
        }  # fmt: skip
        self._releases: dict[str, Timer] = {}
        self._watched: dict[Phase, _Watch] = {}
        self._waiting: list[_Wait] = []
        self._is_waiting = False
        """Whether its main thread waits at a point of the protocol."""
        self._clocks = NodeClocks(world.clock)

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
        self._catch_up()

    def _catch_up(self) -> None:
        """Do what fell due, as far as it can go on."""
        while self._beside and self.answers:
            self._beside.popleft()()
        while self._backlog and self.answers and not self._is_waiting:
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
        if self.is_stopped or self._is_waiting:
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

    def is_watched(self, phase: Phase) -> bool:
        """Whether a point is to be announced."""
        return phase in self._watched

    def reach(self, phase: Phase, then: Act, **place: int | None) -> None:
        """A protocol point: announced if it is watched; `then` comes after its wait."""
        self._reach(phase, then, place, is_main=False)

    def reach_on_main(self, phase: Phase, then: Act, **place: int | None) -> None:
        """The same where the main thread waits meanwhile, and nothing else of it goes on."""
        self._reach(phase, then, place, is_main=True)

    def _reach(
        self, phase: Phase, then: Act, place: Mapping[str, int | None], *, is_main: bool
    ) -> None:
        watch = self._watched.pop(phase, None)
        if watch is None:
            then()
            return
        is_waiting = watch.wait_s > 0
        self.say(PhaseReached(**self._about(), phase=phase, is_waiting=is_waiting, **place))
        if not is_waiting:
            then()
            return
        wait = _Wait(then, is_main)
        wait.timer = self.later_beside(watch.wait_s, lambda: self._let_go(wait))
        self._waiting.append(wait)
        self._is_waiting = self._is_waiting or is_main

    def _let_go(self, wait: _Wait) -> None:
        if wait not in self._waiting:
            return
        self._waiting.remove(wait)
        if wait.timer is not None:
            wait.timer.cancel()
        if wait.is_main:
            self._is_waiting = False
            wait.then()
            self._catch_up()
        else:
            self.do(wait.then)

    def _watch(self, facts: Mapping[str, Json]) -> None:
        if not facts:
            self._watched.clear()
            self._let_all_go({})
            return
        wait_s = facts.get("wait_s")
        asked_s = float(wait_s) if isinstance(wait_s, int | float) else 0.0
        self._watched[Phase(str(facts["phase"]))] = _Watch(max(0.0, asked_s))

    def _let_all_go(self, _: Mapping[str, Json]) -> None:
        for wait in tuple(self._waiting):
            self._let_go(wait)

    # ---------------------------------------------------------------- clocks

    def _set_clocks(self, facts: Mapping[str, Json]) -> None:
        was_touched = self._clocks.is_touched
        if not was_touched and not facts:
            return
        if not was_touched:
            self._read_clocks()
        self._clocks.set(facts)
        self._read_clocks()
        if not was_touched:
            self.later(READ_S, self._go_on_reading)

    def _go_on_reading(self) -> None:
        if self._clocks.is_touched:
            self._read_clocks()
            self.later(READ_S, self._go_on_reading)

    def _read_clocks(self) -> None:
        wall_s, monotonic_s = self._clocks.wall_s, self._clocks.monotonic_s
        self.say(ClockRead(**self._about(), wall_s=wall_s, monotonic_s=monotonic_s))

    def _about(self) -> NodeFields:
        """Fields of what it says of itself."""
        return {"node": self.name, "learner": "", "incarnation": self.incarnation}


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
