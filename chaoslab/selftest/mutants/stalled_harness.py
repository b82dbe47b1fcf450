"""A harness that stands still for four seconds once it has brought a victim back."""

import time
from collections.abc import Sequence

from chaoslab.core.events import Observation
from chaoslab.fleet.base import Node
from chaoslab.fleet.local.fleet import LocalFleet


class StalledHarness(LocalFleet):
    """Does nothing at all for a while: it reads nothing, heals nothing and shows no life."""

    stalls_s = 4.0
    _is_due = False

    def restart(self, name: str) -> Node:
        """A second life is what it waits for."""
        node = super().restart(name)
        self._is_due = node.incarnation == 2
        return node

    def poll(self, until_s: float) -> Sequence[Observation]:
        """Late, once."""
        if self._is_due:
            self._is_due = False
            time.sleep(self.stalls_s)
        return super().poll(until_s)


FLEET = StalledHarness
