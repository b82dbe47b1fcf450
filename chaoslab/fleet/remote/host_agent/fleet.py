"""Fleets of a host, which also notice that a harness speaks to the host agent.

HostedNodes.attend ── one wait for ──┬─ output and exits of nodes
                                     └─ sockets of the agent
HostedFleet    nodes that the harness starts here
HostedScript   nodes of a training of the user's own that runs here already
"""

import logging
import selectors
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.core.process_identity import Identity
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.attached.processes import AttachedProcess
from chaoslab.fleet.attached.script_fleet import ScriptFleet
from chaoslab.fleet.attached.script_search import Which
from chaoslab.fleet.base import Node, NodeSpec, Role, known_already
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.incarnation import LocalProcess
from chaoslab.fleet.nodes.fleet import IncarnationT, NodeFleet
from chaoslab.fleet.settings import FleetRequest, Reading
from chaoslab.trainers.worker_sources import WorkerSources
from chaoslab.undo.base import UndoLog

_log = logging.getLogger(__name__)
_PAUSE_S: Final = 0.01
"""Interval of the looks at sockets while nodes are not looked at."""
_BLINK_S: Final = 0.02
"""Interval of the looks at nodes that are no children of the agent."""


class HostedNodes(NodeFleet[IncarnationT]):
    """The nodes of one host."""

    is_left = False
    _selector: selectors.DefaultSelector
    _sources = WorkerSources({}, Path)
    """Files of a script's workers, if any are read."""
    _step = 0
    """Step that a worker has reported last."""

    def read_files(self, sources: WorkerSources) -> None:
        """Read these from now on."""
        self._sources = sources

    def watch(self, descriptor: int, *, writes: bool = False) -> None:
        """`attend` returns also when this can be read, or written if that is asked for."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
        if self.is_left:
            return
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def unwatch(self, descriptor: int) -> None:
        """Do not ask for it any more."""
        if not self.is_left:
            self._selector.unregister(descriptor)

    def attend(self, limit_s: float, *, is_full: bool = False) -> Sequence[Observation]:
        """What is new, after waiting for something on a node or a socket, at most this long.

        Nothing is taken in where nothing more can be kept.
        """
        if is_full:
            time.sleep(min(limit_s, _PAUSE_S))
            return ()
        if self.is_left:
            time.sleep(min(limit_s, _PAUSE_S))
        else:
            self._observed += self._in_files()
            if not self._observed:
                self._wait(limit_s)
        while self._troubles:  # no call waits for them
            _log.error("%s", self._troubles.pop(0))
        seen = self.poll(self._place.clock.now_s() - 1.0)
        for said in (one.payload for one in seen if one.kind is Kind.TRAINER_SAID):
            self._step = getattr(said, "step", None) or self._step
        return seen

    def _in_files(self) -> list[Observation]:
        """News in the files of workers; of their progress while they run."""
        workers = [one for one in self._lives.values() if one.spec.role is Role.LEARNER]
        lives = {one.spec.name: one.incarnation for one in workers}
        running = {one.spec.name: one.incarnation for one in workers if not one.is_over}
        saved = self._sources.saved(lives, lambda _: self._step, self._place.clock.now_s())
        return [*self._sources.read(running), *saved]

    def leave(self) -> str:
        """End all nodes, or leave them as they were found, and undo all; what remains, in words.
        Safe to repeat.
        """
        self.is_left = True
        try:
            self.__exit__(None, None, None)
        except FleetError as error:
            return str(error)
        return ""


class HostedScript(HostedNodes[AttachedProcess], ScriptFleet):
    """The processes of a training of the user's own on one host."""

    def __init__(self, folder: Path, clock: Clock, *, undo_log: UndoLog) -> None:
        place = Place(run_directory=folder, clock=clock, undo_log=undo_log)
        super().__init__(place, FleetRequest(), Which())
        self._selector = selectors.DefaultSelector()
        self._found: Sequence[Found] = ()

    def adopt_these(
        self,
        nodes: Sequence[Found],
        reading: Reading,
        labels: Mapping[str, Mapping[str, str]],
        first: Mapping[str, int],
    ) -> Sequence[Node]:
        """As `adopt`, of what was found before. `first`: number of the life of each node here,
        after those that others have seen.
        """
        self._found, self._first = nodes, first
        self._read_as(reading)
        adopted = self.adopt(labels)
        own = {name: one for name, one in reading.sources.items() if name in self._specs}
        self.read_files(WorkerSources(own, lambda name: Path(self._recipes[name].folder)))
        return adopted

    def _find(self) -> Sequence[Found]:
        return self._found

    def _wait(self, limit_s: float) -> None:
        """As of any such fleet, and no longer than until a socket of the agent can be read."""
        until_s, known = time.monotonic() + limit_s, len(self._observed)
        while True:
            super()._wait(0.0)
            left_s = max(0.0, min(_BLINK_S, until_s - time.monotonic()))
            if len(self._observed) > known or self._selector.select(left_s) or not left_s:
                return

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (*super()._leaving, self._sources.close, self._selector.close)


class HostedFleet(HostedNodes[LocalProcess], LocalFleet):
    """The processes of one host that are started there."""

    def __init__(self, folder: Path, clock: Clock, *, undo_log: UndoLog) -> None:
        super().__init__(folder, clock, undo_log=undo_log)
        self._first: dict[str, int] = {}

    def enlist_from(self, spec: NodeSpec, first: int) -> Node:
        """As `enlist`; its next incarnation here has at least this number, after those elsewhere.

        A node that is known and dead starts next by this specification.
        """
        if spec.name not in self._specs:
            self.enlist(spec)
        elif (life := self._latest(spec.name)) is not None and not life.is_over:
            raise known_already(spec)
        self._specs[spec.name] = spec
        self._first |= {one.name: first for one in (spec, *spec.launches)}
        return self._node(spec.name)

    def end(self, name: str) -> None:
        """Kill a node, if it lives, and wait until it has ended."""
        self.kill(name)
        self._ended_if_told(name)

    def _begin(self, spec: NodeSpec, incarnation: int) -> LocalProcess:
        return super()._begin(spec, max(incarnation, self._first.get(spec.name, 1)))

    def _taken_up(
        self, spec: NodeSpec, incarnation: int, found: Identity, *, is_again: bool
    ) -> LocalProcess:
        number = max(incarnation, self._first.get(spec.name, 1))
        return super()._taken_up(spec, number, found, is_again=is_again)

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (*super()._leaving, self._sources.close)
