"""A local node that was enlisted and has not run yet: a life with nothing in it.

    enlist ──► Gone (incarnation 0, over) ── restart ──► Life (incarnation 1) ──► …

It is over from the beginning, so that every verb does to it what it does to a dead node.
"""

from chaoslab.core.events import Observation
from chaoslab.fleet.base import NodeSpec, probed
from chaoslab.fleet.local.incarnation import Incarnation


class Gone(Incarnation):
    """What stands in the place of a node's life before its first one."""

    def __init__(self, spec: NodeSpec) -> None:  # no process: what a `Life` begins is left out
        self.spec = spec
        self.incarnation = 0
        self.is_ending = self.is_paused = False
        self.is_over = self.is_silent = True
        self.remaining = ()

    def probe(self) -> Observation:
        """Nobody is there."""
        return probed(self.spec.name, incarnation=0, pid=0)
