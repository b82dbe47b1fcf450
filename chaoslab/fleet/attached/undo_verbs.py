"""Undo of what was done to a node that chaoslab did not start.

restore_node   the node goes on, is on its networks, and runs
release_node   its training thread, which hangs, goes on
delete_lease   other runs may break the training of a namespace, once its nodes go on
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from chaoslab.core.errors import FleetError
from chaoslab.fleet.attached import restoring
from chaoslab.fleet.attached.restoring import RELEASE, RESTORE, PodRecipe, ProcessRecipe, Recipe
from chaoslab.fleet.kubernetes.names import DELETE_LEASE
from chaoslab.fleet.kubernetes.undo_facts import RunFacts
from chaoslab.fleet.local.private_folder import is_made_for, lies_here
from chaoslab.undo.facts import NODE, Facts, require, require_match
from chaoslab.undo.verbs import Healed, Maintenance, Verb, by_module

_CONTAINERS: Final = "chaoslab.fleet.attached.restoring_containers"
"""Module that needs the engine's SDK."""
_PODS: Final = "chaoslab.fleet.attached.restoring_pods"
"""Module that needs lightkube."""


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


def _restore(facts: NodeFacts) -> Healed:
    recipe = facts.recipe
    if recipe is None:
        return Healed()
    if not isinstance(recipe, ProcessRecipe):
        return Healed(actions=_elsewhere("restore", recipe))
    restoring.await_end(facts.pid, facts.start_ticks)
    if facts.pid and recipe.rank is not None:
        restoring.await_answer(recipe, facts.pid)
    return Healed(actions=(*restoring.end_left(recipe, facts.left), *restoring.restore(recipe)))


def _release(facts: NodeFacts) -> Healed:
    recipe = facts.recipe
    if recipe is None:
        return Healed()
    if not isinstance(recipe, ProcessRecipe):
        return Healed(actions=_elsewhere("release", recipe))
    return Healed(actions=restoring.release(recipe))


def _left(facts: NodeFacts) -> tuple[str, ...]:
    try:
        recipe = facts.recipe
        if recipe is None:
            return ()
        if not isinstance(recipe, ProcessRecipe):
            return _elsewhere("lacks", recipe)
        return restoring.lacks(recipe)
    except FleetError as error:
        return (str(error),)


def _give_back(facts: RunFacts) -> Healed:
    return Healed(actions=by_module(_PODS, "give_back", facts))


def _lease_left(facts: RunFacts) -> tuple[str, ...]:
    try:
        return by_module(_PODS, "lease_left", facts)
    except FleetError as error:
        return (str(error),)


def _elsewhere(do: Literal["restore", "release", "lacks"], recipe: Recipe) -> tuple[str, ...]:
    return by_module(_PODS if isinstance(recipe, PodRecipe) else _CONTAINERS, do, recipe)


MAINTENANCE = Maintenance(
    verbs={
        RESTORE: Verb(facts=NodeFacts, undo=_restore, left=_left, is_safe_during_run=True),
        RELEASE: Verb(
            facts=NodeFacts, undo=_release, left=_left, is_safe_during_run=True, looks=False
        ),
        DELETE_LEASE: Verb(facts=RunFacts, undo=_give_back, left=_lease_left, is_last=True),
    }
)
