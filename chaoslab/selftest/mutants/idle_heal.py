"""A heal that does nothing: the fleet says that it started the victim again, and does not."""

from chaoslab.fleet.base import Node
from chaoslab.fleet.local.fleet import LocalFleet


class IdleHeal(LocalFleet):
    """Whoever is dead stays dead."""

    def restart(self, name: str) -> Node:
        """The node as it is, once it has had a life."""
        node = self.nodes[name]
        return node if node.incarnation else super().restart(name)


FLEET = IdleHeal
