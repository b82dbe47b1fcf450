"""Nodes that other nodes start: the workers of a launcher, wherever its fleet finds them.

    start ──► launcher ─ starts ─► its workers ─ found ─► nodes, each with lives of its own

A signal to a launcher reaches all of its tree but them. They are taken up once they run. One that
ended runs again when its launcher starts it, or, if that does not do so, when the launcher has
ended and is started again here. One that does neither is ended for that, its workers first.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import TrainerSaid
from chaoslab.core.process_identity import Identity
from chaoslab.fleet.base import Node, NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.nodes.fleet import NodeFleet
from chaoslab.fleet.nodes.process import ProcessIncarnation
from chaoslab.fleet.nodes.worker_search import ANSWER_S, ENDING_S, QUIET_S, WorkerSearch
from chaoslab.fleet.stress.registry import StressDriver, Wish, no_driver

_ALONE_S: Final = 2.0
"""Time for which workers may outlive their launcher before it is started again."""
_STARTING_S: Final = 30.0
"""Longest time in which a launcher that was started again brings a worker, until it is asked for
again."""

ProcessT = TypeVar("ProcessT", bound=ProcessIncarnation)


class LaunchingFleet(NodeFleet[ProcessT]):
    """A fleet of processes, some of which start others (`NodeSpec.launches`)."""

    def __init__(
        self,
        place: Place,
        node_links: NodeLinks | None,
        driver: Callable[[Wish[ProcessT]], StressDriver] = no_driver,
    ) -> None:
        super().__init__(place, node_links, driver)
        self._launchers: dict[str, str] = {}
        """The launcher of each node that has one."""
        self._searches: dict[str, WorkerSearch] = {}
        """Search of each launcher."""
        self._started_by: dict[str, int] = {}
        """Incarnation of the launcher that started each worker."""
        self._taking_up = threading.RLock()
        """Held while workers are taken up, and what they print is read."""
        self._restarting = threading.RLock()
        """Held while a node is restarted: two dead workers restart their launcher once."""

    # ---------------------------------------------------------------- what differs by fleet

    @abstractmethod
    def _taken_up(
        self, spec: NodeSpec, incarnation: int, found: Identity, *, is_again: bool
    ) -> ProcessT:
        """The life of a worker that was found; `is_again`: its launcher had started one before."""

    @abstractmethod
    def _end_workers(self, left: Sequence[ProcessT]) -> None:
        """Kill these workers, whose launcher has ended."""

    # ---------------------------------------------------------------- verbs

    def enlist(self, spec: NodeSpec) -> Node:
        for worker in spec.launches:
            super().enlist(worker)
            self._launchers[worker.name] = spec.name
        if spec.launches:
            self._searches[spec.name] = WorkerSearch(len(spec.launches))
        return super().enlist(spec)

    def restart(self, name: str) -> Node:
        """A worker of a launcher that starts none again is back when this returns, unless it takes
        long; of another launcher, it stays dead until that has started it again.
        """
        with self._restarting:
            life = self._ended_if_told(name)
            if self._specs[name].launches and life is not None and life.is_over:
                self._end_left_by(life)
            if (above := self._launchers.get(name)) is None:
                for worker in self._specs[name].launches:
                    self._storage(worker.name)  # before it writes there
                return super().restart(name)
            launcher = self._ended_if_told(above)
            if launcher is not None and not launcher.spec.restarts:
                self._restart_by(launcher, name)
        self._take_up_launched()
        return self._node(name)

    def _restart_by(self, launcher: ProcessT, worker: str) -> None:
        """Let a launcher bring a worker back, or start it again for that; one that has not started
        all of its workers yet is only waited for.
        """
        above = launcher.spec.name
        has_begun = self._started_by.get(worker) == launcher.incarnation
        if self._is_down(worker) and (has_begun or launcher.is_over):
            self._await_answer(launcher, worker)
            if self._is_down(worker):
                self._end_all_of(launcher)
                self.restart(above)
        self._wait_until(
            lambda: not self._is_down(worker) or self._lives[above].is_over, _STARTING_S
        )

    def _is_down(self, name: str) -> bool:
        life = self._lives.get(name)
        return life is None or life.is_over

    def _await_answer(self, launcher: ProcessT, worker: str) -> None:
        """Wait until it has ended or started the dead worker again; not for long, if it has not
        even ended the others.
        """

        def is_there() -> bool:
            return launcher.is_over or not self._is_down(worker)

        self._wait_until(is_there, QUIET_S)
        lives = [self._lives.get(one.name) for one in launcher.spec.launches]
        if any(life is not None and life.is_over and not life.is_ending for life in lives):
            self._wait_until(is_there, ANSWER_S - QUIET_S)

    def _end_all_of(self, launcher: ProcessT) -> None:
        """End its workers, then ask it to end; SIGKILL follows for those that take long."""
        if launcher.is_over:
            return
        workers = list(self._workers(launcher).values())
        names = [life.spec.name for life in workers]
        self.signal(*names, signal="SIGTERM")
        self._wait_for(workers, ENDING_S)
        for name in names:
            self._ended_if_told(name)
        self.signal(launcher.spec.name, signal="SIGTERM")

    # ---------------------------------------------------------------- workers

    def _workers(self, launcher: ProcessT) -> dict[int, ProcessT]:
        """Running workers by rank."""
        lives = (
            (rank, self._lives.get(one.name)) for rank, one in enumerate(launcher.spec.launches)
        )
        return {rank: life for rank, life in lives if life is not None and not life.is_over}

    def _tree_above(self, launcher: ProcessT) -> list[Identity]:
        """The launcher, and what runs between it and its workers."""
        workers = [one.identity for one in self._workers(launcher).values()]
        return self._searches[launcher.spec.name].between(launcher.identity, workers)

    def _searched(self) -> list[ProcessT]:
        """The launchers that run, and have a worker that does not."""
        lives = [one for one in tuple(self._lives.values()) if not one.is_over]
        return [one for one in lives if len(self._workers(one)) < len(one.spec.launches)]

    def _take_up_launched(self) -> None:
        """Workers that launchers have started since."""
        with self._taking_up:
            for launcher in self._searched():
                known = {rank: life.identity for rank, life in self._workers(launcher).items()}
                found = self._searches[launcher.spec.name].find(launcher.identity, known)
                for rank, identity in sorted(found.items()):
                    self._take_up(launcher, rank, identity)

    def _take_up(self, launcher: ProcessT, rank: int, found: Identity) -> None:
        workers = launcher.spec.launches
        if rank >= len(workers):
            self._troubles.append(
                FleetError(
                    f"process {found.pid} has rank {rank}, and the plan says that there are "
                    f"{len(workers)} workers: write as many as start"
                )
            )
            return
        spec, before = workers[rank], self._lives.get(workers[rank].name)
        is_again = self._started_by.get(spec.name) == launcher.incarnation
        self._started_by[spec.name] = launcher.incarnation
        life = self._taken_up(
            spec, before.incarnation + 1 if before else 1, found, is_again=is_again
        )
        self._say_started(life)
        self._listen(life)
        self._lives[spec.name] = life

    def _end_left_by(self, launcher: ProcessT) -> None:
        """End the remaining workers of a launcher that has ended."""
        left = list(self._workers(launcher).values())
        self._wait_for(left, _ALONE_S)
        left = [life for life in left if not life.is_over]
        for life in left:
            life.is_ending = True
            life.note_sent("SIGKILL")
        self._end_workers(left)

    def _speakers(self, life: ProcessT) -> Mapping[int, str]:
        """By rank, the workers that print where this node does."""
        return dict(enumerate(one.name for one in life.spec.launches))

    def _by_worker(self, life: ProcessT, said: Sequence[Observation]) -> list[Observation]:
        """The same; of a node that prints for several, lines with a rank as of that worker."""
        names, found = self._speakers(life), list(said)
        for number, line in enumerate(one.payload for one in said):
            if isinstance(line, TrainerSaid) and line.rank is not None and line.rank in names:
                name = names[line.rank]
                by_worker = replace(line, node=name, incarnation=self._node(name).incarnation)
                found[number] = Observation.of(name, by_worker)
        return found
