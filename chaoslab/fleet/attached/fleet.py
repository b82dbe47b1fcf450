"""Fleets of nodes that run already, whatever they run in (`processes`, `containers`, `pods`).

    adopt ──► lock, find ─► AttachedNode, each with its Recipe in the private folder
    kill, pause, hang ──► the node ─► restart: by its own command, unless others were faster
    leaving ──► every node goes on and runs; nothing is ended

What brings nodes back beside chaoslab (a supervisor, the engine's restart policy) may do so: a
node that runs again is taken up as its next incarnation. With `restarts: false` only they do: a
node that ended stays dead until others have started it, without an undo entry.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, TypeVar

from chaoslab.core.errors import FleetError, HarnessBug
from chaoslab.core.events import Observation
from chaoslab.fleet.attached import lock
from chaoslab.fleet.attached.found import Found, refuse_others
from chaoslab.fleet.attached.node import AttachedNode, AttachedPlace
from chaoslab.fleet.attached.restoring import RECIPE
from chaoslab.fleet.base import Node, NodeSite, NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.nodes.arrivals import together
from chaoslab.fleet.nodes.fleet import NodeFleet
from chaoslab.fleet.private_folder import PrivateFolder
from chaoslab.fleet.protocols import (
    Attached,
    HasHosts,
    HasVolumes,
    Hookable,
    Networked,
    StoresFiles,
    Stressable,
    abilities_by,
)
from chaoslab.fleet.settings import FleetRequest, Keeps
from chaoslab.fleet.storage.files import Disk, FilesHere, FilesOfOthers, Reach

_BLINK_S: Final = 0.02
"""Interval of the looks for output and exits."""
_RETURN_S: Final = 2.0
"""Interval of the looks at nodes that stay up, and for those that others have started again."""
_Node = TypeVar("_Node", bound=AttachedNode)


class AttachedFleet(NodeFleet[_Node], Attached):
    """A fleet of nodes that were found; see `base.Fleet` for what each verb promises."""

    lacking = abilities_by(Hookable, Stressable, StoresFiles, HasVolumes, HasHosts, Networked)
    node_site = NodeSite()
    end_s_max = 10.0
    _place: AttachedPlace

    def __init__(self, place: Place, request: FleetRequest, *, restarts: bool = True) -> None:
        """Without learners in `request` it takes all that there are; by its `reading` a script is
        read, and says where it keeps checkpoints. `restarts`: whether nodes that end are started
        here.
        """
        self._learners, self._restarts = tuple(request.learners), restarts
        reading = request.reading
        self._reads = None if reading is None else reading.patterns
        self._keeps: Mapping[str, Keeps] = {} if reading is None else reading.keeps
        self._files: dict[str, FilesOfOthers] = {}
        directory, undo_log = place.run_directory.resolve(), place.undo_log
        recipes = PrivateFolder(directory, undo_log)
        super().__init__(
            AttachedPlace(
                run_directory=directory, clock=place.clock, undo_log=undo_log, recipes=recipes
            ),
            None,
        )
        self._look_s = 0.0
        self._locked = ExitStack()
        """Lets other runs come again."""
        self._is_adopting = False
        """Whether nodes are taken up now, beside `poll`, which could take one for a new life."""

    # ---------------------------------------------------------------- what differs by kind

    @abstractmethod
    def _find(self) -> Sequence[Found]:
        """The nodes of the training. AbilityError if they are none."""

    @abstractmethod
    def _identity(self, nodes: Sequence[Found]) -> str:
        """Identity of this training in every run, also when its nodes were started again."""

    @abstractmethod
    def _adopted(self, spec: NodeSpec, found: Found) -> _Node:
        """The life of a node as it was found."""

    @abstractmethod
    def _begun(self, spec: NodeSpec, incarnation: int) -> _Node:
        """Next life of the node: one that runs already, or one started here if wanted."""

    @abstractmethod
    def _recipe(self, found: Found) -> bytes:
        """Recipe that brings it back, to be kept in its private folder."""

    @abstractmethod
    def _runs_again(self, name: str) -> bool:
        """Whether a node that ended runs again."""

    def _news(self) -> list[Observation]:
        """Reports about nodes by others, and nodes that others started."""
        return []

    def _said_by(self, life: _Node, said: Sequence[Observation]) -> Sequence[Observation]:  # noqa: ARG002
        """Output of a node by speaker."""
        return said

    @abstractmethod
    def _restore(self, name: str) -> None:
        """Let it go on, and start it if it does not run. FleetError if that fails."""

    # ---------------------------------------------------------------- begin and end

    def adopt(self, labels: Mapping[str, Mapping[str, str]]) -> Sequence[Node]:
        """Find the nodes and take them up; NODE_STARTED and their state follow from `poll`."""
        nodes = self._find()
        refuse_others(nodes, self._learners)
        with ExitStack() as locked:
            self._lock(nodes, locked)
            self._locked = locked.pop_all()
        specs = [
            NodeSpec(
                name=found.name,
                role=found.role,
                command=(),
                private_files={RECIPE: self._recipe(found)},
                labels=labels.get(found.name, {}),
                reads=self._reads,
                **self._kept(found.name),
            )
            for found in nodes
        ]
        self._is_adopting = True
        try:
            for spec, found in zip(self._enlisted(specs), nodes, strict=True):
                self._lives[found.name] = life = self._adopted(spec, found)
                self._observed.append(life.started())
        finally:
            self._is_adopting = False
        together(self._keeps, self._storage)
        return tuple(self.nodes.values())

    def _kept(self, name: str) -> Mapping[str, Any]:
        """Fields of its spec about its files."""
        if (keeps := self._keeps.get(name)) is None:
            return {}
        return {
            "keeps": keeps.folder, "keeps_names": keeps.names, "has_volume": keeps.is_filled
        }  # fmt: skip

    def _folder(self, name: str) -> str:
        """Folder of its checkpoints, if faults act on that; or empty."""
        return self._keeps[name].folder if name in self._keeps else ""

    def _enlisted(self, specs: Sequence[NodeSpec]) -> Sequence[NodeSpec]:
        """Know them, as they are from now on."""
        for spec in specs:
            self.enlist(spec)
        return specs

    def _lock(self, nodes: Sequence[Found], locked: ExitStack) -> None:
        """Keep other runs away until `locked` is closed. FleetError while one is there."""
        locked.callback(lock.take(self._identity(nodes), self._place.run_directory))

    def _begin(self, spec: NodeSpec, incarnation: int) -> _Node:
        before = self._lives[spec.name]
        begun = self._begun(spec, incarnation)
        begun.take_over(before)
        before.pending_undos.close_all()
        return begun

    @property
    def _leaving(self) -> Sequence[Callable[[], Iterable[str] | None]]:
        return (self._restore_all, self._close_links, self._forget, self._locked.close)

    def _restore_all(self) -> list[str]:
        """Resume and restart every changed node; errors of those that do not run."""
        left = []
        for step in (self._await_ending, self._put_back, self._bring_back):
            for name in tuple(self._lives):
                try:
                    step(name)
                except FleetError as error:
                    left.append(f"{name} was not brought back: {error}")
        for life in tuple(self._lives.values()):
            if not life.is_over:
                life.detach()
        return left

    def _await_ending(self, name: str) -> None:
        """Or it would end only after it was looked at."""
        life = self._lives[name]
        if life.is_ending and not life.is_over:
            self._await_end(life)

    def _put_back(self, name: str) -> None:
        """Before it is started again, or it would read what was damaged."""
        if name in self._files:
            self._files[name].put_back()

    def _bring_back(self, name: str) -> None:
        self.unwedge(name)
        pending_undos = self._lives[name].pending_undos
        if pending_undos.has_open:
            self._restore(name)
            pending_undos.close_all()

    def _forget(self) -> None:
        """The recipes, unless a node or its files are still to be brought back."""
        is_changed = any(life.pending_undos.has_open for life in self._lives.values())
        if not is_changed and not any(files.is_touched for files in self._files.values()):
            self._place.recipes.close()

    # ---------------------------------------------------------------- verbs

    def _disk(self, spec: NodeSpec) -> Disk:
        if not spec.keeps:
            return FilesHere(spec, self._place)
        files = FilesOfOthers(spec, self._reach(spec), self._place.undo_log)
        self._files[spec.name] = files
        return files

    def _reach(self, spec: NodeSpec) -> Reach:
        """Way to its files, where faults can act on these."""
        raise HarnessBug(f"no plan names files of {spec.name} in the {self.kind} fleet")

    def notice(self, name: str) -> None:
        """Announce a preemption; it may leave."""
        self._open_restore(self._running(name), "SIGHUP")
        super().notice(name)

    def unwedge(self, name: str) -> None:
        """Release only the life that was hung: another one might die of the signal."""
        life = self._latest(name)
        if life is not None and life.pending_undos.is_open(life.undo_wedge):
            super().unwedge(name)

    def _signal(self, lives: Sequence[_Node], name: str) -> None:
        for life in lives:
            self._open_restore(life, name)
        together(lives, lambda life: life.signal_all(name))

    def _open_restore(self, life: _Node, signal: str) -> None:
        """Before a signal that may end it, unless others start it again."""
        if self._restarts:
            life.open_restore(signal)
        else:
            life.note_sent(signal)

    def restart(self, name: str) -> Node:
        """Start the node, or take up the life that others start; until then it stays dead."""
        life = self._lives[name]
        if not life.is_over and (life.is_ending or life.has_exited):
            self._await_end(life)  # meanwhile it may be taken up
        is_ours = self._restarts or not self._lives[name].is_over
        return super().restart(name) if is_ours or self._runs_again(name) else self._node(name)

    @property
    def refused_lines(self) -> Mapping[str, int]:
        there = {
            name: life.refused_lines
            for name, life in tuple(self._lives.items())
            if not life.is_over
        }
        return {name: lines for name, lines in there.items() if lines}

    def _thaw(self, life: _Node) -> None:
        life.resume()

    # ---------------------------------------------------------------- waiting

    def _wait(self, limit_s: float) -> None:
        """Wait for output or an exit, and take in what is there: output first, exits after it.

        Observations that `poll` has not returned yet do not end the wait.
        """
        deadline, known = time.monotonic() + limit_s, (len(self._observed), len(self._troubles))
        while True:
            if not self._is_adopting:
                self._take_in()
            left_s = deadline - time.monotonic()
            if (len(self._observed), len(self._troubles)) != known or left_s <= 0:
                return
            time.sleep(min(_BLINK_S, left_s))

    def _take_in(self) -> None:
        self._observed += self._news()
        for life in list(self._lives.values()):
            if not life.is_over:
                self._record(self._said_by(life, life.read()))
        for life in list(self._lives.values()):
            if not life.is_over and life.has_exited:
                self._observed += self._said_by(life, life.finish())
        if time.monotonic() >= self._look_s:
            self._look_s = time.monotonic() + _RETURN_S
            for name in tuple(self._lives):
                self._tend(name, partial(self._look_after, name))

    def _look_after(self, name: str) -> None:
        """Close the undo entry of a node that stays up, and take up one that others have started
        again.
        """
        life = self._lives[name]
        life.close_restore_if_it_stays()
        if life.is_over and self._runs_again(name):
            self.restart(name)
