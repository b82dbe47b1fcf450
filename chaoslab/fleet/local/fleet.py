"""Nodes as operating-system processes on this machine: the fleet `local`.

    start ──► LocalIncarnation (process, pipe, pidfd) ──┐
    kill, pause, wedge … ──► signals                    ├─► selector ──► poll ──► observations
    output lines, exits ────────────────────────────────┤
    a launcher's workers, found (`launched`) ───────────┘

Each node leads its own process group, dies with the harness (parent-death signal), and is
acted on as a whole tree. The hooks a node may take up, by signal to its main process: SIGUSR1 hang
the training thread, SIGUSR2 go on, SIGHUP notice of preemption, SIGTERM please leave.

The thread that uses it must outlive it: the kernel ends a node when the thread that started it
ends.

A node may be a launcher, whose program starts other nodes (`NodeSpec.launches`). A signal to it
reaches all of its tree but them. They are taken up once they run. One that ended runs again when
its launcher starts it, or, if that does not do so, when it has ended and is started again here.
"""

import math
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from chaoslab.core import process_tree
from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Observation
from chaoslab.core.payloads import TrainerSaid
from chaoslab.core.process_identity import Identity
from chaoslab.fleet.base import Ability, Node, NodeSite, NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.incarnation import LocalIncarnation, LocalProcess
from chaoslab.fleet.local.launched import LaunchedProcess, WorkerSearch
from chaoslab.fleet.local.neighbours import Beside, SharedLimit
from chaoslab.fleet.local.private_folder import PrivateFolder
from chaoslab.fleet.local.slowdown import slower
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.nodes.fleet import NodeFleet
from chaoslab.fleet.protocols import LosesPower, abilities_of
from chaoslab.fleet.storage.files import FilesHere
from chaoslab.fleet.storage.volume import can_lose_power, can_mount
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stressors import MemoryLimit, Slowness
from chaoslab.undo.base import UndoLog

_LEFTOVERS_S = 0.5
"""How long a second attempt at ending what a node left may take."""
_BLINK_S = 0.02
"""How often exits are looked for where the kernel has no pidfd."""
_SEARCH_S = 0.05
"""How often workers of a launcher are looked for, while one is missing."""
_ALONE_S = 2.0
"""How long workers may run on after their launcher has ended, before it is started again."""


class _Lacking:
    """Abilities that the kernel does not grant to this process."""

    def __get__(self, _fleet: object, _kind: type) -> frozenset[Ability]:
        is_granted = {
            Ability.QUOTA: cgroups.where(Controller.CPU) is not None,
            Ability.MEMORY_LIMIT: cgroups.where(Controller.MEMORY) is not None,
            Ability.VOLUME: can_mount(),
            Ability.CUT_POWER: can_lose_power(),
        }
        return frozenset(ability for ability, is_so in is_granted.items() if not is_so)


class _Abilities:
    """Those of the class, which makes fleets (`FleetFactory`), on this machine."""

    def __get__(self, _fleet: object, kind: type) -> frozenset[Ability]:
        return abilities_of(kind)


class LocalFleet(NodeFleet[LocalProcess], LosesPower):
    """A fleet of processes; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "local"
    abilities = _Abilities()
    lacking = _Lacking()
    node_site = NodeSite()
    end_s_max = 10.0

    def __init__(
        self,
        run_directory: Path,
        clock: Clock,
        *,
        undo_log: UndoLog,
        node_links: NodeLinks | None = None,
    ) -> None:
        """Nodes write below `run_directory`; undo entries go to `undo_log`."""
        place = Place(run_directory=run_directory.resolve(), clock=clock, undo_log=undo_log)
        super().__init__(place, node_links, _driver)
        self._selector = selectors.DefaultSelector()
        self._pidfds: dict[str, int] = {}
        self._unfinished: list[LocalIncarnation] = []
        """Over, but not all of their processes could be ended."""
        self._private_folder = PrivateFolder(place.run_directory, undo_log)
        self._thread = threading.get_ident()
        self._launchers: dict[str, str] = {}
        """The launcher of each node that has one."""
        self._searches: dict[str, WorkerSearch] = {}
        """Of each launcher."""

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        """Stressors first: a process that one has stopped is let go before it is killed."""
        return (
            self._stress_registry.relieve_all,
            self._end_all,
            self._private_folder.close,
            self._selector.close,
            *(storage.close for storage in self._storages.values()),
            self._close_links,
        )

    def _begin(self, spec: NodeSpec, incarnation: int) -> LocalProcess:
        if threading.get_ident() != self._thread:
            raise HarnessBug(
                "nodes are started by the thread that made the fleet: they die with it"
            )
        private = self._private_folder.put(spec)
        life = LocalIncarnation(spec, incarnation, self._place, private)
        self._selector.register(life.pipe, selectors.EVENT_READ, life)
        self._watch(life)
        return life

    def _watch(self, life: LocalProcess) -> None:
        pidfd = _pidfd(life.identity.pid)
        if pidfd is not None:
            self._pidfds[life.spec.name] = pidfd
            self._selector.register(pidfd, selectors.EVENT_READ, None)

    def _disk(self, spec: NodeSpec) -> FilesHere:
        return FilesHere(spec, self._place)

    def _signal(self, lives: Sequence[LocalProcess], name: str) -> None:
        reached = [life for life in lives if not life.is_over]
        for life in reached:
            life.note_sent(name)
            if life.spec.launches:
                workers = [one.identity for one in self._workers(life).values()]
                tree = self._searches[life.spec.name].between(life.identity, workers)
                process_tree.send_each(tree, signal.Signals[name])
        reached = [life for life in reached if not life.spec.launches]
        mains = [life.identity for life in reached]
        prepared = [life.take_receivers() for life in reached]
        process_tree.signal_trees(mains, signal.Signals[name], prepared)

    def cut_power(self, name: str) -> None:
        """By the kernel's own way to shut a file system down."""
        life = self._ended_if_told(name)
        if life is not None and not life.is_over:
            raise FleetError(f"{name} lives: a power cut ends it first")
        self._observed.append(self._storage(name).cut_power())

    def _end_all(self) -> list[str]:
        stuck = super()._end_all()
        self._end_leftovers()
        return stuck + [f"process {pid}" for life in self._unfinished for pid in life.remaining]

    def _end_leftovers(self) -> None:
        """Of those that are over; what was printed meanwhile is recorded."""
        for life in self._unfinished:
            life.end_leftovers(_LEFTOVERS_S)
            if life.spec.launches and not life.remaining:
                self._hear(life, life.read_all())
                self._unregister(life)
                life.close()
        self._unfinished = [life for life in self._unfinished if life.remaining]

    def _unregister(self, life: LocalIncarnation) -> None:
        if life.pipe in self._selector.get_map():
            self._selector.unregister(life.pipe)

    # ---------------------------------------------------------------- launchers

    def enlist(self, spec: NodeSpec) -> Node:
        for worker in spec.launches:
            super().enlist(worker)
            self._launchers[worker.name] = spec.name
        self._searches[spec.name] = WorkerSearch(len(spec.launches))
        return super().enlist(spec)

    def restart(self, name: str) -> Node:
        """A worker of a launcher stays dead until that has started it again."""
        life = self._ended_if_told(name)
        if self._specs[name].launches and life is not None and life.is_over:
            self._end_left_by(life)
        if (above := self._launchers.get(name)) is None:
            return super().restart(name)
        launcher = self._ended_if_told(above)
        is_down = launcher is not None and launcher.is_over and not launcher.spec.restarts
        if is_down and (life is None or life.is_over):
            self.restart(above)
        self._take_up_launched()
        return self._node(name)

    def _end_left_by(self, launcher: LocalProcess) -> None:
        """What still runs of the workers of a launcher that has ended."""
        left = list(self._workers(launcher).values())
        self._wait_for(left, _ALONE_S)
        for life in left:
            if not life.is_over:
                life.is_ending = True
                life.note_sent("SIGKILL")
        self._end_leftovers()
        self._wait_for(left, _LEFTOVERS_S)

    def _workers(self, launcher: LocalProcess) -> dict[int, LocalProcess]:
        """Those of its workers that run, by rank."""
        lives = (
            (rank, self._lives.get(one.name)) for rank, one in enumerate(launcher.spec.launches)
        )
        return {rank: life for rank, life in lives if life is not None and not life.is_over}

    def _searched(self) -> list[LocalProcess]:
        """The launchers that run, and have a worker that does not."""
        return [life for life in self._lives.values() if life.spec.launches and not life.is_over
                and len(self._workers(life)) < len(life.spec.launches)]  # fmt: skip

    def _take_up_launched(self) -> None:
        """Workers that launchers have started since."""
        for launcher in self._searched():
            known = {rank: life.identity for rank, life in self._workers(launcher).items()}
            found = self._searches[launcher.spec.name].find(launcher.identity, known)
            for rank, identity in sorted(found.items()):
                if rank >= len(launcher.spec.launches):
                    self._troubles.append(
                        FleetError(
                            f"process {identity.pid} has rank {rank}, and the plan says that there "
                            f"are {len(launcher.spec.launches)} workers: write as many as start"
                        )
                    )
                else:
                    self._take_up(launcher.spec.launches[rank], launcher, identity)

    def _take_up(self, spec: NodeSpec, launcher: LocalProcess, found: Identity) -> None:
        before = self._lives.get(spec.name)
        is_again = isinstance(before, LaunchedProcess) and before.launcher == launcher.incarnation
        life = LaunchedProcess(
            spec, before.incarnation + 1 if before else 1, self._place, found,
            launcher=launcher.incarnation, is_again=is_again,
        )  # fmt: skip
        self._lives[spec.name] = life
        self._watch(life)
        self._say_started(life)

    def _hear(self, life: LocalProcess, said: Sequence[Observation]) -> None:
        """Record it; lines of a launcher with a rank before them as of that worker."""
        workers = life.spec.launches
        found = list(said)
        for number, line in enumerate(one.payload for one in said):
            if isinstance(line, TrainerSaid) and line.rank is not None and line.rank < len(workers):
                name = workers[line.rank].name
                by_worker = replace(line, node=name, incarnation=self._node(name).incarnation)
                found[number] = Observation.of(name, by_worker)
        self._record(found)

    # ---------------------------------------------------------------- waiting

    def _wait(self, limit_s: float) -> None:
        """Wait for output or an exit, and take in what is there: output first, exits after it."""
        if len(self._pidfds) < sum(not life.is_over for life in self._lives.values()):
            limit_s = min(limit_s, _BLINK_S)
        if self._searched():
            limit_s = min(limit_s, _SEARCH_S)
        ready = self._ready(limit_s)
        self._take_up_launched()  # before anything is read that they may have printed
        for key, _ in ready:
            if isinstance(key.data, LocalIncarnation):
                self._read(key.data)
        for life in list(self._lives.values()):
            if not life.is_over and life.has_exited:
                self._finish(life)

    def _ready(self, limit_s: float) -> "list[tuple[selectors.SelectorKey, int]]":
        """What can be read; the last fraction of a millisecond is slept, as epoll counts whole ones
        and comes back up to one too late.
        """
        until_s = time.monotonic() + limit_s
        whole_ms = math.floor(1e3 * limit_s)
        ready = self._selector.select(max(0.0, (whole_ms - 0.5) / 1e3))
        if not ready and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(left_s)
        return ready

    def _read(self, life: LocalIncarnation) -> None:
        self._hear(life, life.read())
        if life.is_silent:
            self._selector.unregister(life.pipe)

    def _finish(self, life: LocalProcess) -> None:
        pidfd = self._pidfds.pop(life.spec.name, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
        if isinstance(life, LocalIncarnation):
            if not life.spec.launches:
                self._unregister(life)
            self._hear(life, life.finish())
            if life.remaining or life.spec.launches:
                self._unfinished.append(life)
            return
        launcher = self._lives.get(self._launchers[life.spec.name])
        if isinstance(launcher, LocalIncarnation) and not launcher.is_over:
            self._hear(launcher, launcher.read_all())  # what it printed before its end
        self._observed += life.finish()


def _pidfd(pid: int) -> int | None:
    """None where Python or the kernel has none, or no file descriptor is left."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _driver(wish: Wish[LocalProcess]) -> StressDriver:
    """Mechanism for a stressor on a local node. FleetError if this machine has none."""
    match wish.stressor:
        case Slowness() as slowness:
            return slower(wish, slowness)
        case MemoryLimit() as limit:
            return SharedLimit(wish, limit)
        case crowd:
            return Beside(wish, crowd)
