"""Fault by which a link falls silent.

From above a frozen link and a black hole look alike and are not: the one keeps every byte, the
other none. A learner that is cut off is taken away from training and must come back when the fault
is healed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core.events import Json
from chaoslab.faults.actions import OneEffect
from chaoslab.faults.evidence.silence import look_silent
from chaoslab.faults.evidence.window import EvidenceWindow, Found
from chaoslab.links.effects import Blackhole, Direction, Freeze


class Silence(StrEnum):
    """Treatment of bytes that cannot pass."""

    FREEZE = "freeze"
    BLACKHOLE = "blackhole"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPartition(OneEffect):
    """The targets are cut off from the syncer and all nodes on its side, all in one moment.

    No process is told. Learners reach each other by the syncer alone, so the groups are the targets
    and the rest.
    """

    how: Silence = Silence.FREEZE
    """freeze: nothing is lost, as TCP tries again; healed soon enough, streams go on where they
    stood. blackhole: bytes vanish; connections open and stay silent, and the heal ends them."""
    direction: Direction = Direction.BOTH
    """both: neither side hears the other; up: the syncer does not hear them; down: they do not hear
    it."""

    name = "network.partition"
    summary = "cut learners off from the syncer and the others; no process is notified"
    imitates = "a split between sites, a stalled path, a firewall or a route that drops silently"
    proof = "traffic before the fault, then no byte at the receiving end until the heal"
    takes_away = True

    @property
    def effect(self) -> Freeze | Blackhole:
        return Freeze() if self.how is Silence.FREEZE else Blackhole()

    def requested(self) -> Mapping[str, Json]:
        return {"silent": self.direction.value}

    def look(self, window: EvidenceWindow) -> Found:
        """Silence to the end."""
        return look_silent(window, self.direction)
