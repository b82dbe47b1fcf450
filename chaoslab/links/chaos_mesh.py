"""NetworkChaos of Chaos Mesh as a plan names it: `fleet: {kind: kubernetes, links: chaos-mesh}`.

What is made of effects, and how it is watched, is `fleet.kubernetes.chaos_mesh_links`.
"""

from pathlib import Path

from chaoslab.core.errors import AbilityError
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.links.base import Links
from chaoslab.links.settings import LinksFactory
from chaoslab.undo.base import UndoLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosMesh:
    """NetworkChaos objects of Chaos Mesh on the pods themselves; in a cluster that has it."""

    def factory(self, seed: int) -> LinksFactory:  # noqa: ARG002 - the protocol's
        """AbilityError when it is called: see `fleet.kubernetes.settings`."""
        return _only_between_pods


def _only_between_pods(_: Path, /, *, undo_log: UndoLog) -> Links:  # noqa: ARG001
    raise AbilityError(
        "links: chaos-mesh are objects in a cluster that has Chaos Mesh: use --fleet kubernetes, "
        "or links: embedded"
    )
