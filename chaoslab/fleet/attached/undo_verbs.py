"""Undo of what was done to a node that chaoslab did not start.

restore_node     the node goes on, is on its networks, and runs
release_node     its training thread, which hangs, goes on
put_files_back   its checkpoints are those that it has written, their volume has room, and it runs
delete_lease     other runs may break the training of a namespace, once its nodes go on
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached import restoring
from chaoslab.fleet.attached.restoring import (
    RELEASE,
    RESTORE,
    ContainerRecipe,
    PodRecipe,
    ProcessRecipe,
    Recipe,
)
from chaoslab.fleet.kubernetes.names import DELETE_LEASE
from chaoslab.fleet.kubernetes.undo_facts import RunFacts
from chaoslab.fleet.private_folder import is_made_for, lies_here
from chaoslab.fleet.storage.files import UNDO_FILES
from chaoslab.undo.facts import NODE, Facts, require, require_match
from chaoslab.undo.verbs import Healed, Maintenance, Verb, asked, by_module

_MODULES: Final[Mapping[type[Recipe], str]] = {
    ProcessRecipe: "chaoslab.fleet.attached.restoring",
    ContainerRecipe: "chaoslab.fleet.attached.restoring_containers",
    PodRecipe: "chaoslab.fleet.attached.restoring_pods",
}
"""Module that brings a node back; the second needs the engine's SDK, the third lightkube."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts(Facts):
    """An attached node, and the private folder of the run, which holds its recipe."""

    node: str
    folder: str
    pid: int = 0
    start_ticks: int = 0
    """The process that was to end; 0: none was."""
    left: str = ""
    """The workers that it had started, each as pid:start_ticks."""

    def __post_init__(self) -> None:
        require_match(NODE, self.node, "node")
        require(
            is_made_for(self.directory, Path(self.folder)),
            f"{self.folder} is no folder of private files of {self.directory}",
        )
        require(
            lies_here(Path(self.folder)),
            f"{self.folder} is not where private files lie: if this is the run's own machine, set "
            f"TMPDIR={Path(self.folder).parent} and heal again",
        )

    @property
    def recipe(self) -> Recipe | None:
        """Recipe; None once the folder is gone, which is removed after all nodes are restored."""
        folder = Path(self.folder)
        return restoring.read(folder, self.node) if folder.is_dir() else None


def _by_recipe(
    do: Literal["restore", "release", "lacks", "put_back", "not_put_back"], facts: NodeFacts
) -> tuple[str, ...]:
    recipe = facts.recipe
    return () if recipe is None else by_module(_MODULES[type(recipe)], do, recipe)


def _restore(facts: NodeFacts) -> Healed:
    recipe, ended = facts.recipe, tuple[str, ...]()
    if isinstance(recipe, ProcessRecipe):
        restoring.await_end(facts.pid, facts.start_ticks)
        if facts.pid and recipe.rank is not None:
            ended = restoring.await_answer(recipe, facts.pid, facts.start_ticks)
        ended = (*ended, *restoring.end_left(recipe, facts.left))
    return Healed(actions=(*ended, *_by_recipe("restore", facts)))


def _release(facts: NodeFacts) -> Healed:
    return Healed(actions=_by_recipe("release", facts))


def _put_back(facts: NodeFacts) -> Healed:
    return Healed(actions=_by_recipe("put_back", facts))


def _left(facts: NodeFacts, do: Literal["lacks", "not_put_back"] = "lacks") -> tuple[str, ...]:
    try:
        return _by_recipe(do, facts)
    except FleetError as error:
        return (str(error),)


MAINTENANCE = Maintenance(
    verbs={
        RESTORE: Verb(facts=NodeFacts, undo=_restore, left=_left, is_safe_during_run=True),
        RELEASE: Verb(
            facts=NodeFacts, undo=_release, left=_left, is_safe_during_run=True, looks=False
        ),
        UNDO_FILES: Verb(facts=NodeFacts, undo=_put_back, left=partial(_left, do="not_put_back")),
        DELETE_LEASE: asked(
            "chaoslab.fleet.attached.lease",
            DELETE_LEASE,
            RunFacts,
            is_safe_during_run=False,
            looks=True,
            is_last=True,
        ),
    }
)
