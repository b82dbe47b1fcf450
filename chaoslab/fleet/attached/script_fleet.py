"""Attached nodes of a training of the user's own: a launcher and its workers, or workers.

    pid, pattern ─► script_search ─► AttachedProcess, each with the recipe of what starts it
    launcher dies ─► its command again, once its workers have ended ─► its workers, found
    worker dies ───► its launcher starts it again; or ends, or is ended, and is started again

What they print to a file is read from now on. With `restarts: supervisor` whoever started them does
so again, and chaoslab does not.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from chaoslab.core import process_tree
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Observation
from chaoslab.core.payloads import TrainerSaid
from chaoslab.core.process_identity import Identity, boot_id, identify
from chaoslab.fleet.attached.found import Found
from chaoslab.fleet.attached.processes import (
    NULL,
    AttachedProcess,
    ProcessFleet,
    Ran,
    files_of,
    recipe_of,
    unreadable,
)
from chaoslab.fleet.attached.restoring import (
    ProcessRecipe,
    await_answer,
    require_startable,
    written,
)
from chaoslab.fleet.attached.script_search import Which, find
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.nodes.launching import LaunchingFleet
from chaoslab.fleet.settings import FleetRequest, Reading
from chaoslab.plan.model import LAUNCHER

_ENDED_S: Final = 5.0
"""Time limit of the end of killed workers."""


class ScriptFleet(ProcessFleet, LaunchingFleet[AttachedProcess]):
    """Processes of this user that chaoslab knows nothing of but what they print."""

    _first: Mapping[str, int] = MappingProxyType({})
    """Number of the first life here of nodes that had others."""

    _reading: Reading

    def __init__(self, place: Place, request: FleetRequest, which: Which) -> None:
        """Without `reading` in `request`, `_read_as` is to be called before `adopt`."""
        super().__init__(place, request)
        self._which = which
        if request.reading is not None:
            self._read_as(request.reading)

    def _read_as(self, reading: Reading) -> None:
        self._reading, self._reads = reading, reading.patterns
        self._restarts = reading.restarts != "supervisor"

    def _find(self) -> Sequence[Found]:
        return find(self._which, max(1, len(self._learners)))

    def _identity(self, nodes: Sequence[Found]) -> str:
        """Identity by the command that starts it, which stays when it is started again."""
        recipe = recipe_of(nodes[0])
        return f"processes {os.getuid()} {boot_id()} {recipe.folder} {recipe.command}"

    # ---------------------------------------------------------------- found

    def _recipe(self, found: Found) -> bytes:
        """Recipe; of a launcher's worker that of the launcher."""
        launcher = self._recipes.get(LAUNCHER)
        if launcher is not None:
            recipe = replace(
                launcher, node=found.name, rank=int(found.name.rpartition("-")[2]),
                workers=len(self._learners) if self._reading.restarts == "chaoslab" else 0,
            )  # fmt: skip
        else:
            recipe = replace(recipe_of(found), is_ours_to_start=self._restarts)
            self._require_output(found, recipe)
            if self._restarts:
                require_startable(recipe)
        self._recipes[found.name] = recipe
        return written(recipe)

    def _require_output(self, found: Found, recipe: ProcessRecipe) -> None:
        """AbilityError if it prints where nobody can read, and that matters."""
        if self._restarts and recipe.output == NULL:
            raise AbilityError(
                f"{found.name} ({found.where}) does not print to a file, so it could not be "
                "started again as it was: start it with its output in one, as in "
                "`python train.py > train.log 2>&1`, or, if others start it again, write "
                "`restarts: supervisor`"
            )
        if not self._reading.is_elsewhere and not files_of(int(found.handle)):
            raise unreadable(found)

    def _enlisted(self, specs: Sequence[NodeSpec]) -> Sequence[NodeSpec]:
        first, *others = specs
        if first.role is Role.LAUNCHER:
            is_again = self._reading.restarts == "itself"
            first = replace(first, launches=tuple(others), restarts=is_again)
            self.enlist(first)
            return (first, *others)
        return super()._enlisted((first, *others))

    def _adopted(self, spec: NodeSpec, found: Found) -> AttachedProcess:
        identity = identify(int(found.handle))
        if identity is None:
            raise FleetError(f"{spec.name} ({found.where}) has ended")
        self._started_by[spec.name] = 1
        files = self._own_files(spec.name, identity.pid)
        ran = Ran(identity=identity, printed={file: os.path.getsize(file) for file in files})
        return AttachedProcess(
            spec, self._first.get(spec.name, 1), self._place,
            recipe=self._recipes[spec.name], ran=ran,
        )  # fmt: skip

    def _taken_up(
        self, spec: NodeSpec, incarnation: int, found: Identity, *, is_again: bool
    ) -> AttachedProcess:
        """A file that its last life had printed to is read on."""
        before = self._lives.get(spec.name)
        read = {} if before is None else before.printed
        ran = Ran(
            identity=found,
            printed={file: read.get(file, 0) for file in self._own_files(spec.name, found.pid)},
            started_by="launcher" if is_again else "",
        )
        recipe = self._recipes[spec.name]
        life = AttachedProcess(spec, incarnation, self._place, recipe=recipe, ran=ran)
        if before is not None:
            life.take_over(before)
            before.pending_undos.close_all()
        return life

    def _own_files(self, name: str, pid: int) -> Sequence[str]:
        """Files that it prints to and no other node does, or only a later one."""
        others = [life for other, life in self._lives.items() if other != name]
        taken = {file for life in others for file in life.printed}
        return [file for file in files_of(pid) if file not in taken]

    # ---------------------------------------------------------------- verbs

    def _signal(self, lives: Sequence[AttachedProcess], name: str) -> None:
        for life in lives:
            if life.spec.launches and not life.is_over:
                tree = self._tree_above(life)
                life.workers = tuple(one.identity for one in self._workers(life).values())
                self._open_restore(life, name)
                process_tree.send_each(tree, signal.Signals[name])
        super()._signal([life for life in lives if not life.spec.launches], name)

    def _end_left_by(self, launcher: AttachedProcess) -> None:
        if self._restarts:
            super()._end_left_by(launcher)

    def _end_workers(self, left: Sequence[AttachedProcess]) -> None:
        for life in left:
            life.signal_all("SIGKILL")
        self._wait_for(left, _ENDED_S)

    def _runs_again(self, name: str) -> bool:
        """Workers of a launcher are looked for below it."""
        return self._recipes[name].rank is None and super()._runs_again(name)

    def _restore(self, name: str) -> None:
        life, recipe = self._lives[name], self._recipes[name]
        if life.is_over and life.spec.launches:
            self._end_left_by(life)
        if life.is_over and recipe.rank is not None:
            await_answer(recipe, life.identity.pid, life.identity.start_ticks)
        super()._restore(name)

    # ---------------------------------------------------------------- waiting

    def _news(self) -> list[Observation]:
        self._take_up_launched()
        return super()._news()

    def _said_by(self, life: AttachedProcess, said: Sequence[Observation]) -> list[Observation]:
        """The same; a line without a rank in the file of several workers is of none of them, as of
        a launcher.
        """
        found = self._by_worker(life, said)
        if len(self._speakers(life)) > 1:
            for number, line in enumerate(one.payload for one in found):
                if isinstance(line, TrainerSaid) and line.rank is None:
                    found[number] = Observation.of(LAUNCHER, replace(line, node=LAUNCHER))
        return found

    def _speakers(self, life: AttachedProcess) -> Mapping[int, str]:
        """Without a launcher those whose file is this one's."""
        if LAUNCHER in self._lives:
            return super()._speakers(life)
        lives = enumerate(self._lives.items())
        return {rank: name for rank, (name, one) in lives if one is life or not one.printed}
