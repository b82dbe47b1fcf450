"""Fleet whose nodes are programs that run: names, incarnations and verbs, whatever runs them.

    start ──► _begin: the next Incarnation ──► output, exits ─┐
    kill, pause, wedge … ──► _signal, _pause                  ├─► _wait ──► poll ──► observations
    damage, fill_disk … ──► Storage                           │
    NodeLinks, StressRegistry ────────────────────────────────┘

`local.fleet`, `docker.fleet` and `kubernetes.fleet` say how an incarnation begins, is signalled and
is waited for. The thread that makes a fleet reads by `poll`; others carry out verbs meanwhile. The
one that leaves it reads to the end.
"""

import signal as signals
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Final, Generic, Self, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import (
    Damage,
    Fleet,
    Node,
    NodeSpec,
    Role,
    host_number,
    known_already,
    not_started,
    probed,
    say_what_remains,
)
from chaoslab.fleet.chores import Chores, Workers, taken_out
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.nodes.arrivals import all_or_none
from chaoslab.fleet.nodes.incarnation import Incarnation
from chaoslab.fleet.protocols import (
    HasChores,
    HasHosts,
    HasVolumes,
    Hookable,
    Networked,
    Notifiable,
    OwnAbilities,
    Pausable,
    Preparable,
    StoresFiles,
    Stressable,
    Wedgeable,
)
from chaoslab.fleet.storage.files import Disk, Storage
from chaoslab.fleet.stress.registry import StressDriver, StressRegistry, Wish, no_driver
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.base import Link

_ANYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 - what a syncer says, not where we listen
_PATIENCE_S: Final = 0.5
"""How long `restart` lets a node that was told to end do so by itself."""
_BLINK_S: Final = 0.01
"""Interval of the looks whether `poll` has noticed an end, or a chore has ended."""
_KILLED_S: Final = 20.0
"""Longest end of a node after SIGKILL while the others train on, the first time."""

IncarnationT = TypeVar("IncarnationT", bound=Incarnation)


class NodeFleet(
    Fleet,
    Pausable,
    Preparable,
    Wedgeable,
    Notifiable,
    Hookable,
    Stressable,
    StoresFiles,
    HasVolumes,
    HasHosts,
    Networked,
    HasChores,
    Generic[IncarnationT],
):
    """A fleet of incarnations; what each verb promises stands in `base.Fleet` and `protocols`."""

    abilities = OwnAbilities()
    end_s_max: ClassVar[float]
    """Longest end of all nodes together after SIGKILL."""

    def __init__(
        self,
        place: Place,
        node_links: NodeLinks | None,
        driver: Callable[[Wish[IncarnationT]], StressDriver] = no_driver,
    ) -> None:
        """Nodes write below `place.run_directory`; undo entries go to `place.undo_log`.

        `driver` puts stress on them; without one the fleet is `lacking` what `Stressable` has.
        """
        self._place = place
        self._node_links = node_links or NodeLinks(clock=place.clock)
        self._stress_registry = StressRegistry(clock=place.clock, driver=driver)
        self._specs: dict[str, NodeSpec] = {}
        self._lives: dict[str, IncarnationT] = {}
        """Latest incarnation of each node that was ever started."""
        self._storages: dict[str, Storage] = {}
        self._observed: list[Observation] = []
        """Observations that `poll` has not returned yet."""
        self._troubles: list[FleetError] = []
        """Errors that the next waiting `poll` will raise: no verb in between fails for them."""
        self._is_open = True
        self._chores, self._reader = Chores(), threading.get_ident()
        self._waiting = threading.Lock()
        """Held by `poll` from what it sees until that is recorded."""

    # ---------------------------------------------------------------- what differs by fleet

    @abstractmethod
    def _begin(self, spec: NodeSpec, incarnation: int) -> IncarnationT:
        """Start an incarnation. FleetError if it cannot be; then nothing is left of it."""

    def _listen(self, begun: IncarnationT) -> None:
        """From now on `poll` may read what it prints: its start was reported."""

    @abstractmethod
    def _disk(self, spec: NodeSpec) -> Disk:
        """Disk of a node's files."""

    @abstractmethod
    def _signal(self, lives: Sequence[IncarnationT], name: str) -> None:
        """Send a signal to all that runs in these nodes, close together."""

    def _pause(self, lives: Sequence[IncarnationT]) -> None:
        """Stop all that runs in these nodes, close together. At a FleetError all are resumed."""
        self._signal(lives, "SIGSTOP")

    def _thaw(self, life: IncarnationT) -> None:
        """Let a node that is to end go on, if it is paused."""
        self._signal([life], "SIGCONT")

    @abstractmethod
    def _wait(self, limit_s: float) -> None:
        """Wait for output or an exit; record what is there. FleetError: nothing can be read."""

    @property
    @abstractmethod
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        """Steps of leaving the fleet, in order; each raises FleetError or returns what remains."""

    # ---------------------------------------------------------------- begin and end

    def __enter__(self) -> Self:
        self._node_links.made_by.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all nodes and undo what was done to them; FleetError names what remains."""
        if not self._is_open:
            return
        self._is_open, self._reader = False, threading.get_ident()
        remaining: list[str] = []

        def attempt(step: Callable[[], Iterable[str] | None]) -> None:
            try:
                remaining.extend(step() or ())
            except FleetError as refusal:
                remaining.append(str(refusal))

        with ExitStack() as steps:
            for step in reversed((self._end_chores, *self._leaving)):
                steps.callback(attempt, step)
        say_what_remains(remaining, error, self._troubles)

    def _end_chores(self) -> list[str]:
        """Wait for those under way; returns where one goes on, and may start a node yet."""
        deadline = time.monotonic() + self.end_s_max
        while (busy := self._chores.busy) and time.monotonic() < deadline:
            self._wait(_BLINK_S)
        return [f"a chore of {name}" for name in sorted(busy)]

    def _close_links(self) -> None:
        self._node_links.made_by.__exit__(None, None, None)

    def _end_all(self) -> list[str]:
        """Kill all nodes and read their last output; returns what still runs."""
        alive = [life for life in self._lives.values() if not life.is_over]
        self._signal(alive, "SIGKILL")
        self._wait_for(alive, self.end_s_max)
        return [life.where for life in alive if not life.is_over]

    # ---------------------------------------------------------------- nodes

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted; `is_alive` until `poll` has noticed its exit."""
        return {name: self._node(name) for name in tuple(self._specs)}

    def start(self, spec: NodeSpec) -> Node:
        self.enlist(spec)
        return self.restart(spec.name)

    def enlist(self, spec: NodeSpec) -> Node:
        if spec.name in self._specs:
            raise known_already(spec)
        self._specs[spec.name] = spec
        return self._node(spec.name)

    def restart(self, name: str) -> Node:
        if not self._is_open:
            raise FleetError(f"{name} is not started: the fleet was left")
        life = self._latest(name)
        if life is not None and not life.is_over:
            if not life.has_exited and not life.is_ending:
                return self._node(name)
            self._await_end(life)
        self._storage(name)
        begun = self._begin(self._specs[name], life.incarnation + 1 if life else 1)
        self._say_started(begun)
        self._listen(begun)
        self._lives[name] = begun
        return self._node(name)

    def kill(self, *names: str) -> None:
        self.signal(*names, signal="SIGKILL")

    def signal(self, *names: str, signal: str) -> None:
        lives = [life for name in names if (life := self._latest(name)) is not None]
        try:
            name = signals.Signals[signal].name
        except KeyError:
            raise FleetError(f"no signal is called {signal!r}: write one such as SIGKILL") from None
        for life in lives:
            life.is_ending = True
        self._signal(lives, name)

    # ---------------------------------------------------------------- faults

    def prepare(self, *names: str, to_pause: bool = False) -> None:
        lives = [self._running(name) for name in names]
        for life in lives:
            life.prepare()
            if to_pause:
                life.open_undo(life.undo_pause)

    def unprepare(self, *names: str) -> None:
        for life in filter(None, map(self._latest, names)):
            life.unprepare()
            if not life.is_over and not life.is_paused:
                life.close_undo(life.undo_pause)

    def pause(self, *names: str) -> None:
        lives = [self._running(name) for name in names]
        for life in lives:
            life.open_undo(life.undo_pause)
        all_or_none(lambda: self._pause(lives), self.resume, names)
        for life in lives:
            life.is_paused = True

    def resume(self, name: str) -> None:
        life = self._latest(name)
        if life is not None and not life.is_over:
            life.is_paused = False
            life.resume()
            life.close_undo(life.undo_pause)

    def wedge(self, name: str) -> None:
        """SIGUSR1 to the main process."""
        life = self._running(name)
        life.open_undo(life.undo_wedge)
        life.signal("SIGUSR1")

    def unwedge(self, name: str) -> None:
        """SIGUSR2 to the main process."""
        life = self._latest(name)
        if life is not None and not life.is_over:
            life.signal("SIGUSR2")
            life.close_undo(life.undo_wedge)

    def notice(self, name: str) -> None:
        """SIGHUP to the main process."""
        self._running(name).signal("SIGHUP")

    def tell(self, name: str, do: str, **facts: Json) -> None:
        self._running(name).tell({"do": do, **facts})

    def kill_host(self, name: str, host: int) -> None:
        """Kill a host by the node's supervisor; a node with one process by SIGKILL to all of it."""
        life = self._running(name)
        index = host_number(life.spec, host)
        if life.spec.hosts is None:
            self.kill(name)
        else:
            self._end_by_hook(life, "SIGKILL", do="host", index=index, signal="SIGKILL")

    def fail_chip(self, name: str, host: int) -> None:
        """Fail a chip by a test hook of the process."""
        life = self._running(name)
        self._end_by_hook(life, "SIGABRT", do="chip", index=host_number(life.spec, host))

    def _end_by_hook(self, life: IncarnationT, by: str, **request: Json) -> None:
        """Ask a node for what ends it by a signal."""
        life.is_ending = True
        life.note_sent(by)
        life.tell(request)

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        self._stress_registry.put(self._running(name), injection, stressor)

    def relieve(self, name: str, injection: str) -> None:
        self._specs[name]
        self._stress_registry.relieve(name, injection)

    def take_down(self, *names: str) -> None:
        self.kill(*names)

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        self._ended_if_told(name)
        self._observed += self._storage(name).damage(how, every=every)

    def fill_disk(self, name: str) -> None:
        """Lower the limit of its volume."""
        self._observed.append(self._storage(name).fill())

    def free_disk(self, name: str) -> None:
        """Restore the limit of its volume."""
        self._observed += self._storage(name).free()

    # ---------------------------------------------------------------- observations

    def probe(self, name: str) -> Observation:
        """State of its main process, seen from outside; its link and stressors report as well."""
        life = self._latest(name)
        seen = probed(name, incarnation=0, pid=0) if life is None else life.probe()
        self._node_links.count(name)
        self._stress_registry.count(name)
        return seen

    def link(self, name: str, upstream: str) -> Link:
        """Create a link of the kind that this fleet was given; to a syncer that listens on every
        address by the one at which others reach it.
        """
        host, _, port = upstream.rpartition(":")
        syncers = [spec.name for spec in self._specs.values() if spec.role is Role.SYNCER]
        if host in _ANYWHERE and syncers:
            upstream = f"{self._address(syncers[0])}:{port}"
        return self._node_links.create(name, upstream)

    def _address(self, name: str) -> str:  # noqa: ARG002 - for fleets off this machine
        """Host by which other nodes reach a node that listens on every address."""
        return "127.0.0.1"

    @property
    def links(self) -> Mapping[str, Link]:
        return self._node_links.links

    def poll(self, until_s: float) -> Sequence[Observation]:
        """Reports and ends of nodes; a node's last lines come before its exit."""
        lives = tuple(self._lives.values())
        self._observed += self._node_links.observed(self._chores)
        self._observed += self._stress_registry.observations(lives, self._chores)
        waits = self._is_open and until_s > self._place.clock.now_s()
        while self._is_open and not self._observed and not (waits and self._troubles):
            left_s = until_s - self._place.clock.now_s()
            most_s = _BLINK_S if self._chores.busy else left_s
            with self._waiting:
                self._wait(max(0.0, min(left_s, most_s)))
            self._troubles += self._chores.failed()
            if left_s <= 0:
                break
        if waits and self._troubles:
            raise self._troubles.pop(0)
        return taken_out(self._observed)

    def acting(self, nodes: Iterable[str]) -> AbstractContextManager[None]:
        return self._chores.acting(nodes)

    def use_workers(self, workers: Workers) -> None:
        self._chores.workers = workers

    def _tend(self, name: str, chore: Callable[[], object]) -> None:
        """Begin a chore of this node and those that it launches, unless the fleet is being left."""
        if self._is_open:
            self._chores.begin([name, *(one.name for one in self._specs[name].launches)], chore)

    # ---------------------------------------------------------------- inside

    def _say_started(self, begun: IncarnationT) -> None:
        """Report its start; a fleet whose nodes take long to start reports later."""
        self._observed.append(begun.started())

    def _node(self, name: str) -> Node:
        known, life = not_started(self._specs[name]), self._lives.get(name)
        if life is None:
            return known
        return replace(
            known,
            incarnation=life.incarnation,
            is_alive=not life.is_over,
            is_ending=life.is_ending and not life.is_over,
        )

    def _latest(self, name: str) -> IncarnationT | None:
        """Latest incarnation; None for a node that was never started. KeyError: no such node."""
        self._specs[name]
        return self._lives.get(name)

    def _running(self, name: str) -> IncarnationT:
        life = self._latest(name)
        if life is None or life.has_exited:
            raise FleetError(f"{name} is not running")
        return life

    def _storage(self, name: str) -> Storage:
        """Files of a node; a volume of its own is made here, before its first incarnation."""
        if name not in self._storages:
            spec = self._specs[name]
            self._storages[name] = Storage(spec, self._disk(spec))
        return self._storages[name]

    def _record(self, said: Sequence[Observation]) -> None:
        self._stress_registry.hear(said)
        self._observed += said

    def _ended_if_told(self, name: str) -> IncarnationT | None:
        """Latest incarnation, after waiting for its end if it was told to end."""
        life = self._latest(name)
        if life is not None and life.is_ending and not life.is_over:
            self._await_end(life)
        return life

    def _await_end(self, life: IncarnationT) -> None:
        """Let a node that was told to end do so, then kill it; its last output is recorded.

        A further try is short: a loop of restarts must not stall meanwhile.
        """
        self._thaw(life)
        self._wait_for([life], _PATIENCE_S)
        if not life.is_over:
            self._signal([life], "SIGKILL")
            limit_s, most_s = _PATIENCE_S if life.has_outlived_kill else _KILLED_S, self.end_s_max
            self._wait_for([life], min(limit_s, most_s) if self._is_open else most_s)
        if not life.is_over:
            life.has_outlived_kill = True
            raise FleetError(f"{life.spec.name} ({life.where}) cannot be ended")

    def _wait_for(self, lives: Sequence[IncarnationT], limit_s: float) -> None:
        """Wait until all of them are over, at most this long."""
        self._wait_until(lambda: all(life.is_over for life in lives), limit_s)

    def _wait_until(self, is_so: Callable[[], bool], limit_s: float) -> None:
        """Wait until it is so, at most this long. In a verb `poll` reads meanwhile."""
        deadline, is_reader = time.monotonic() + limit_s, threading.get_ident() == self._reader
        while not is_so() and time.monotonic() < deadline:
            if is_reader:
                self._wait(0.05)
            else:
                time.sleep(_BLINK_S)
        if not is_reader:
            with self._waiting:  # what was seen is recorded
                return
