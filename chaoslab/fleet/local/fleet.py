"""Nodes as operating-system processes on this machine: the fleet `local`.

    start ──► LocalIncarnation (process, pipe, pidfd) ──┐
    kill, pause, wedge … ──► signals                    ├─► selector ──► poll ──► observations
    output lines, exits ────────────────────────────────┤
    a launcher's workers, found (`LaunchedProcess`) ────┘

Each node leads its own process group, dies with the harness (parent-death signal), and is
acted on as a whole tree. The hooks a node may take up, by signal to its main process: SIGUSR1 hang
the training thread, SIGUSR2 go on, SIGHUP notice of preemption, SIGTERM please leave.

Threads that start nodes must outlive it: the kernel ends a node when the thread that started it
ends.
"""

import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from chaoslab.core import process_tree
from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.process_identity import Identity
from chaoslab.fleet.base import Ability, NodeSite, NodeSpec
from chaoslab.fleet.incarnation_files import IncarnationFiles, Place
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.local.incarnation import LocalIncarnation, LocalProcess
from chaoslab.fleet.local.neighbours import Beside, SharedLimit
from chaoslab.fleet.local.slowdown import slower
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.node_output import NodeOutput
from chaoslab.fleet.nodes.launching import LaunchingFleet
from chaoslab.fleet.nodes.process import StrangersProcess
from chaoslab.fleet.nodes.worker_search import command_of
from chaoslab.fleet.private_folder import PrivateFolder
from chaoslab.fleet.protocols import LosesPower
from chaoslab.fleet.storage.files import FilesHere
from chaoslab.fleet.storage.volume import can_lose_power, can_mount
from chaoslab.fleet.stress.registry import StressDriver, Wish
from chaoslab.fleet.stressors import MemoryLimit, Slowness
from chaoslab.undo.base import UndoLog

_LEFTOVERS_S = 0.5
"""Time limit of a second attempt at ending leftovers of a node."""
_BLINK_S = 0.02
"""Interval of the looks for exits where the kernel has no pidfd."""
_SEARCH_S = 0.05
"""Interval of the looks for workers of a launcher, while one is missing."""


class Lacking:
    """Abilities that the kernel does not grant to this process, and others."""

    def __init__(self, *others: Ability) -> None:
        self._others = frozenset(others)

    def __get__(self, _fleet: object, _kind: type) -> frozenset[Ability]:
        is_granted = {
            Ability.QUOTA: cgroups.where(Controller.CPU) is not None,
            Ability.MEMORY_LIMIT: cgroups.where(Controller.MEMORY) is not None,
            Ability.VOLUME: can_mount(),
            Ability.CUT_POWER: can_lose_power(),
        }
        return self._others | {ability for ability, is_so in is_granted.items() if not is_so}


class LocalFleet(LaunchingFleet[LocalProcess], LosesPower):
    """A fleet of processes; see `base.Fleet` and `protocols` for what each verb promises."""

    kind = "local"
    lacking = Lacking()
    node_site = NodeSite()
    end_s_max = 10.0
    incarnation_class = LocalIncarnation

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
        private = self._private_folder.put(spec)
        return self.incarnation_class(spec, incarnation, self._place, private)

    def _listen(self, begun: LocalProcess) -> None:
        if isinstance(begun, LocalIncarnation):
            self._selector.register(begun.pipe, selectors.EVENT_READ, begun)
        self._watch(begun)

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
                process_tree.send_each(self._tree_above(life), signal.Signals[name])
        reached = [life for life in reached if not life.spec.launches]
        mains = [life.identity for life in reached]
        prepared = [life.take_receivers() for life in reached]
        process_tree.signal_trees(mains, signal.Signals[name], prepared)

    def cut_power(self, name: str) -> None:
        """Cut the power by the kernel's own way to shut a file system down."""
        life = self._ended_if_told(name)
        if life is not None and not life.is_over:
            raise FleetError(f"{name} lives: a power cut ends it first")
        self._observed.append(self._storage(name).cut_power())

    def _end_all(self) -> list[str]:
        stuck = super()._end_all()
        self._end_leftovers()
        return stuck + [f"process {pid}" for life in self._unfinished for pid in life.remaining]

    def _end_leftovers(self) -> None:
        """End leftovers of ended nodes; output from meanwhile is recorded."""
        tried = tuple(self._unfinished)
        for life in tried:
            life.end_leftovers(_LEFTOVERS_S)
        with self._taking_up:
            for life in tried:
                if life.remaining or life not in self._unfinished:
                    continue
                self._unfinished.remove(life)
                if life.spec.launches:
                    self._record(self._by_worker(life, life.read_all()))
                    self._unregister(life)
                    life.close()

    def _unregister(self, life: LocalIncarnation) -> None:
        if life.pipe in self._selector.get_map():
            self._selector.unregister(life.pipe)

    # ---------------------------------------------------------------- launchers

    def _taken_up(
        self, spec: NodeSpec, incarnation: int, found: Identity, *, is_again: bool
    ) -> LocalProcess:
        return LaunchedProcess(spec, incarnation, self._place, found, is_again=is_again)

    def _end_workers(self, left: Sequence[LocalProcess]) -> None:
        self._end_leftovers()
        self._wait_for(left, _LEFTOVERS_S)

    # ---------------------------------------------------------------- waiting

    def _wait(self, limit_s: float) -> None:
        """Wait for output or an exit, and take in what is there: output first, exits after it."""
        if len(self._pidfds) < sum(not life.is_over for life in tuple(self._lives.values())):
            limit_s = min(limit_s, _BLINK_S)
        if self._searched():
            limit_s = min(limit_s, _SEARCH_S)
        ready = self._ready(limit_s)
        with self._taking_up:
            self._take_up_launched()  # before anything is read that they may have printed
            for key, _ in ready:
                if isinstance(key.data, LocalIncarnation) and key.fd in self._selector.get_map():
                    self._read(key.data)
            for life in list(self._lives.values()):
                if not life.is_over and life.has_exited:
                    self._finish(life)

    def _ready(self, limit_s: float) -> "list[tuple[selectors.SelectorKey, int]]":
        """Readable descriptors. The last fraction of a millisecond is slept: epoll counts whole
        ones and comes back up to one too late.
        """
        until_s = time.monotonic() + limit_s
        whole_ms = math.floor(1e3 * limit_s)
        ready = self._selector.select(max(0.0, (whole_ms - 0.5) / 1e3))
        if not ready and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(left_s)
        return ready

    def _read(self, life: LocalIncarnation) -> None:
        self._record(self._by_worker(life, life.read()))
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
            self._record(self._by_worker(life, life.finish()))
            if life.remaining or life.spec.launches:
                self._unfinished.append(life)
            return
        launcher = self._lives.get(self._launchers[life.spec.name])
        if isinstance(launcher, LocalIncarnation) and not launcher.is_over:
            said = launcher.read_all()  # what it printed before its end
            self._record(self._by_worker(launcher, said))
        self._observed += life.finish()


def _pidfd(pid: int) -> int | None:
    """Pidfd of a process; None where Python or the kernel has none, or no descriptor is left."""
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


class LaunchedProcess(StrangersProcess, LocalProcess):
    """A worker that a launcher of the fleet `local` has started, as a node of its own.

        launcher (node) ─► its worker, found ─► LaunchedProcess
                        └─ one pipe for all ─► trainer.said, of the worker with the rank before it

    None of them is a child of the harness.
    """

    def __init__(
        self, spec: NodeSpec, incarnation: int, place: Place, found: Identity, *, is_again: bool
    ) -> None:
        """`is_again`: whether its launcher had started an earlier life of it, too."""
        super().__init__(spec, incarnation, place)
        self.identity, self.started_by = found, "launcher" if is_again else ""
        self._files = IncarnationFiles(self._directory, place.clock)
        self._files.errors.touch()
        self._files.begun(spec, command_of(found), found.facts)
        self._output = NodeOutput(spec, incarnation, self._files.log)

    def finish(self) -> list[Observation]:
        self.is_over = True
        self.pending_undos.close_all()
        self._files.log.close()
        return self._report_exit([], self._ending(), 0)

    def _write(self, line: bytes) -> None:
        raise BlockingIOError(f"{self.spec.name} has no standard input of the harness: {line!r}")
