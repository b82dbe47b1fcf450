"""Nodes as operating-system processes on this machine.

    start ──► Life (process, pipe, pidfd) ──┐
    kill, pause, wedge … ──► signals        ├─► selector ──► poll ──► observations
    output lines, exits ────────────────────┘

Each node leads its own process group, dies with the harness (parent-death signal), and is
acted on as a whole tree. The hooks a node may take up, by signal to its main process: SIGUSR1 hang
the training thread, SIGUSR2 go on, SIGHUP notice of preemption, SIGTERM please leave.

It is used from one thread, which must outlive it: the kernel ends a node when the thread that
started it ends.
"""

import os
import selectors
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Json, Observation
from chaoslab.fleet.base import Ability, Damage, Fleet, Node, NodeSite, NodeSpec, known_already
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local.gone import Gone
from chaoslab.fleet.local.incarnation import Incarnation, signal_trees
from chaoslab.fleet.local.stress_drivers import drivers_of, lacking
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import (
    HasVolumes,
    Hookable,
    LosesPower,
    Networked,
    Notifiable,
    Pausable,
    StoresFiles,
    Stressable,
    Wedgeable,
    abilities_of,
)
from chaoslab.fleet.storage.files import FilesHere, Storage
from chaoslab.fleet.storage.volume import can_lose_power, can_mount
from chaoslab.fleet.stress.registry import StressRegistry
from chaoslab.fleet.stressors import Stressor
from chaoslab.links.base import Link
from chaoslab.undo.base import UndoLog

_RESUME, _UNWEDGE = "resume_process", "unwedge_process"
"""The undo verbs for what holds a node up."""
_PATIENCE_S = 0.5
"""How long `restart` lets a node that was told to end do so by itself. The harness stands still
meanwhile, so what the others report is stamped late."""
_LAST_S = 10.0
"""How long leaving the fleet may take until every process is gone."""
_BLINK_S = 0.02
"""How often exits are looked for where the kernel has no pidfd."""


class _Lacking:
    """Abilities that the kernel does not grant to this process."""

    def __get__(self, _fleet: object, _kind: type) -> frozenset[Ability]:
        cannot = set(lacking())
        cannot |= set() if can_mount() else {Ability.VOLUME}
        cannot |= set() if can_lose_power() else {Ability.CUT_POWER}
        return frozenset(cannot)


class _Abilities:
    """Those of the class, which makes fleets (`FleetFactory`), on this machine."""

    def __get__(self, _fleet: object, kind: type) -> frozenset[Ability]:
        return abilities_of(kind)


class LocalFleet(
    Fleet,
    Pausable,
    Wedgeable,
    Notifiable,
    Hookable,
    Stressable,
    StoresFiles,
    HasVolumes,
    LosesPower,
    Networked,
):
    """A fleet of processes; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "local"
    abilities = _Abilities()
    lacking = _Lacking()
    node_site = NodeSite()

    def __init__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        node_links: NodeLinks | None = None,
    ) -> None:
        """Nodes write below `run_directory`; how to end them is written to `obligations`."""
        self._place = Place(run_directory=run_directory.resolve(), clock=clock, undo_log=undo_log)
        self._node_links = node_links or NodeLinks(clock=clock)
        self._lives: dict[str, Incarnation] = {}
        self._storages: dict[str, Storage] = {}
        self._stress_registry = StressRegistry(clock=clock, driver=drivers_of(self._place))
        self._recorder: list[Observation] = []
        self._selector = selectors.DefaultSelector()
        self._pidfds: dict[str, int] = {}
        self._unfinished: list[Incarnation] = []
        """Over, but not all of their processes could be ended."""
        self._is_open = True
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        self._node_links.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill everything that lives and verify that it is gone; FleetError names what is not."""
        if not self._is_open:
            return
        try:
            self._leave(error)
        finally:
            self._node_links.__exit__(kind, error, trace)

    def _leave(self, error: BaseException | None) -> None:
        remaining = self._stress_registry.relieve_all()
        remaining += [f"process {pid}" for pid in self._end_all()]
        self._selector.close()
        self._is_open = False
        remaining += self._close_storages()
        if not remaining:
            return
        left = FleetError(f"what could not be ended: {'; '.join(remaining)}")
        if error is None:
            raise left
        error.add_note(str(left))

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node ever started or enlisted; `is_alive` until `poll` has noticed its exit."""
        return {name: _node(life) for name, life in self._lives.items()}

    # ---------------------------------------------------------------- verbs

    def start(self, spec: NodeSpec) -> Node:
        """Start the first incarnation."""
        self.enlist(spec)
        return self.restart(spec.name)

    def enlist(self, spec: NodeSpec) -> Node:
        """Keep how to start it, and make the place where it is to keep its files."""
        if spec.name in self._lives:
            raise known_already(spec)
        self._lives[spec.name] = Gone(spec)
        return _node(self._lives[spec.name])

    def restart(self, name: str) -> Node:
        """Start the next incarnation of a node that is dead, enlisted or was told to end."""
        life = self._lives[name]
        if not life.has_exited and not life.is_ending:
            return _node(life)
        self._await_end(life)
        return self._begin(life.spec, incarnation=life.incarnation + 1)

    def kill(self, *names: str) -> None:
        """SIGKILL to the whole trees."""
        self.signal(*names, signal="SIGKILL")

    def signal(self, *names: str, signal: str) -> None:
        """Send a signal that ends processes to the whole trees."""
        lives = [self._lives[name] for name in names]
        signal_trees(lives, _number(signal))
        for life in lives:
            life.is_ending = True

    def pause(self, *names: str) -> None:
        """SIGSTOP; to nobody if one of them is not running."""
        lives = [self._running(name) for name in names]
        for life in lives:
            life.owe(_RESUME)
        signal_trees(lives, signal.SIGSTOP)
        for life in lives:
            life.is_paused = True

    def resume(self, name: str) -> None:
        """SIGCONT, and a look whether it goes on."""
        life = self._lives[name]
        life.resume()
        life.settle(_RESUME)

    def wedge(self, name: str) -> None:
        """SIGUSR1 to the main process."""
        life = self._running(name)
        life.owe(_UNWEDGE)
        life.signal_main(signal.SIGUSR1)

    def unwedge(self, name: str) -> None:
        """SIGUSR2 to the main process."""
        self._lives[name].signal_main(signal.SIGUSR2)
        self._lives[name].settle(_UNWEDGE)

    def notice(self, name: str) -> None:
        """SIGHUP to the main process."""
        self._running(name).signal_main(signal.SIGHUP)

    def tell(self, name: str, do: str, **facts: Json) -> None:
        """One line on its standard input."""
        self._running(name).tell({"do": do, **facts})

    def stress(self, name: str, injection: str, stressor: Stressor) -> None:
        """By cgroups, or by processes beside it."""
        self._stress_registry.put(self._running(name), injection, stressor)

    def relieve(self, name: str, injection: str) -> None:
        """By ending what was put upon it."""
        self._lives[name]
        self._stress_registry.relieve(name, injection)

    def damage(self, name: str, how: Damage, *, every: bool = False) -> None:
        """In the files of its folder."""
        life = self._lives[name]
        if life.is_ending and not life.is_over:
            self._await_end(life)
        self._recorder += self._storages[name].damage(how, every=every)

    def fill_disk(self, name: str) -> None:
        """By the limit of its volume."""
        self._recorder.append(self._storages[name].fill())

    def free_disk(self, name: str) -> None:
        """By the limit of its volume."""
        self._recorder += self._storages[name].free()

    def cut_power(self, name: str) -> None:
        """By the kernel's own way to shut a file system down."""
        life = self._lives[name]
        if life.is_ending and not life.is_over:
            self._await_end(life)
        if not life.is_over:
            raise FleetError(f"{name} lives: a power cut ends it first")
        self._recorder.append(self._storages[name].cut_power())

    def probe(self, name: str) -> Observation:
        """The kernel's view of the main process; waits briefly for a paused one to stop."""
        seen = self._lives[name].probe()
        self._node_links.count(name)
        self._stress_registry.count(name)
        return seen

    def link(self, name: str, upstream: str) -> Link:
        """By the links that this fleet was given."""
        return self._node_links.create(name, upstream)

    @property
    def links(self) -> Mapping[str, Link]:
        """Every link made."""
        return self._node_links.links

    def poll(self, until_s: float) -> Sequence[Observation]:
        """What nodes reported and which ended; a node's last lines come before its exit."""
        self._recorder += self._node_links.recorder()
        self._recorder += self._stress_registry.recorder(self._lives.values())
        while self._is_open and not self._recorder:
            left_s = until_s - self._place.clock.now_s()
            self._wait(max(0.0, left_s))
            if left_s <= 0:
                break
        recorder, self._recorder = self._recorder, []
        return recorder

    # ---------------------------------------------------------------- beginning and ending

    def _begin(self, spec: NodeSpec, *, incarnation: int) -> Node:
        if threading.get_ident() != self._thread:
            raise HarnessBug(
                "nodes are started by the thread that made the fleet: they die with it"
            )
        if spec.name not in self._storages:
            self._storages[spec.name] = Storage(spec, FilesHere(spec, self._place))
        life = Incarnation(spec, incarnation, self._place)
        self._lives[spec.name] = life
        self._selector.register(life.pipe, selectors.EVENT_READ, life)
        if hasattr(os, "pidfd_open"):
            pidfd = os.pidfd_open(life.process.pid)
            self._pidfds[spec.name] = pidfd
            self._selector.register(pidfd, selectors.EVENT_READ, None)
        self._recorder.append(life.started())
        return _node(life)

    def _running(self, name: str) -> Incarnation:
        life = self._lives[name]
        if life.has_exited:
            raise FleetError(f"{name} is not running")
        return life

    def _await_end(self, life: Incarnation) -> None:
        """Let a node that was told to end do so, then end it; its last words become news."""
        signal_trees([life], signal.SIGCONT)
        self._wait_for([life], _PATIENCE_S)
        if not life.is_over:
            signal_trees([life], signal.SIGKILL)
            self._wait_for([life], _LAST_S)
        if not life.is_over:
            raise FleetError(f"{life.spec.name} (process {life.process.pid}) cannot be ended")

    def _end_all(self) -> list[int]:
        alive = [life for life in self._lives.values() if not life.is_over]
        signal_trees(alive, signal.SIGKILL)
        self._wait_for(alive, _LAST_S)
        stuck = [life.process.pid for life in alive if not life.is_over]
        for life in self._unfinished:
            life.end_leftovers(_PATIENCE_S)
        return stuck + [pid for life in self._unfinished for pid in life.remaining]

    def _close_storages(self) -> list[str]:
        """Every one is tried; what could not be undone."""
        refused = []
        for storage in self._storages.values():
            try:
                storage.close()
            except FleetError as error:
                refused.append(str(error))
        return refused

    # ---------------------------------------------------------------- waiting

    def _wait_for(self, lives: Sequence[Incarnation], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while any(not life.is_over for life in lives) and time.monotonic() < deadline:
            self._wait(0.05)

    def _wait(self, limit_s: float) -> None:
        """Wait for output or an exit, and take in what is there: output first, exits after it."""
        if len(self._pidfds) < sum(not life.is_over for life in self._lives.values()):
            limit_s = min(limit_s, _BLINK_S)
        for key, _ in self._selector.select(limit_s):
            if isinstance(key.data, Incarnation):
                self._read(key.data)
        for life in list(self._lives.values()):
            if not life.is_over and life.has_exited:
                self._finish(life)

    def _read(self, life: Incarnation) -> None:
        said = life.read()
        self._stress_registry.hear(said)
        self._recorder += said
        if life.is_silent:
            self._selector.unregister(life.pipe)

    def _finish(self, life: Incarnation) -> None:
        pidfd = self._pidfds.pop(life.spec.name, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
        if life.pipe in self._selector.get_map():
            self._selector.unregister(life.pipe)
        self._recorder += life.finish()
        if life.remaining:
            self._unfinished.append(life)


def _node(life: Incarnation) -> Node:
    return Node(
        name=life.spec.name,
        role=life.spec.role,
        labels=life.spec.labels,
        incarnation=life.incarnation,
        is_alive=not life.is_over,
    )


def _number(name: str) -> int:
    try:
        return signal.Signals[name]
    except KeyError:
        raise FleetError(f"no signal is called {name!r}: write one such as SIGKILL") from None
