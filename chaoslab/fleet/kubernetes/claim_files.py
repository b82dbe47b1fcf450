"""Files of a node in a cluster: on its claim, reached by a short-lived Job that mounts it.

    damage ─► Job: `disk` as a script ─► one line of JSON in its log ─► what was measured

A claim can neither be full for this node alone nor lose its power: the cluster's storage decides.
"""

from collections.abc import Sequence
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import Damage, NodeSpec
from chaoslab.fleet.kubernetes.manifests import NODE
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.storage.disk import Measured, Space
from chaoslab.fleet.storage.files import damaging, measured
from chaoslab.fleet.storage.power import Cut

_PATIENCE_S: Final = 120.0
"""Time limit of such a Job; a claim may have to move to another machine first."""


class ClaimFiles:
    """Folder on its claim in which a node keeps its state; see `storage.files.Disk`."""

    def __init__(self, spec: NodeSpec, run_objects: RunObjects) -> None:
        self._node, self._keeps, self._objects = spec.name, spec.keeps, run_objects

    @property
    def where(self) -> str:
        """Path of the folder, as the node sees it."""
        return f"{NODE}/{self._keeps}".rstrip("/")

    def damage(self, how: Damage, *, every: bool) -> Sequence[Measured]:
        """Damage files in a pod beside that of the node, as the same user."""
        command = damaging(self.where, how, every=every)
        said = self._objects.run_beside(self._node, command, _PATIENCE_S)
        found: Sequence[Measured] = measured(said, f"cannot damage the files of {self._node}")
        return found

    def give_volume(self) -> None:
        """Raise FleetError: nothing limits a claim for one node."""
        raise self._refusal("be full or lose its power")

    def cut_power(self) -> Cut:
        """Raise FleetError."""
        raise self._refusal("lose its power")

    def fill(self) -> Space:
        """Raise FleetError."""
        raise self._refusal("be full")

    def free(self) -> Space:
        """Raise FleetError."""
        raise self._refusal("be full")

    def take_volume(self) -> None:
        """Nothing was given."""

    def _refusal(self, what: str) -> FleetError:
        return FleetError(f"the claim of {self._node} cannot {what}: use --fleet local")
