"""Faults by which a link falls silent: blackhole, freeze, partition.

From above they look alike and are not: a frozen link keeps every byte, a black hole keeps none, and
a partition cuts a whole group off in one moment. Who is cut off is taken away from training and
must come back when the fault is healed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from chaoslab.core.events import Json
from chaoslab.faults.actions import OneEffect
from chaoslab.faults.evidence.silence import look_silent
from chaoslab.faults.evidence.window import EvidenceWindow, Found
from chaoslab.links.effects import Blackhole, Direction, Freeze


class _Silence(OneEffect):
    """Nothing gets through in one direction or both, until the heal."""

    __slots__ = ()

    proof = "traffic until then, and nothing more at the end that should hear it"
    takes_away = True

    def requested(self) -> Mapping[str, Json]:
        return {"silent": self.direction.value}

    def look(self, window: EvidenceWindow) -> Found:
        """Silence to the end."""
        return look_silent(window, self.direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkBlackhole(_Silence):
    """Bytes vanish. Connections open and stay silent; the heal ends those that were open."""

    direction: Direction = Direction.BOTH
    """Which way nothing gets through: up to the syncer, down to the learner, or both."""

    name = "network.blackhole"
    summary = "everything that is sent vanishes without a word"
    imitates = "a firewall or a route that drops without a word"
    effect = Blackhole()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFreeze(_Silence):
    """Nothing moves and nothing is lost: healed soon enough, the stream goes on where it stood."""

    direction: Direction = Direction.BOTH
    """Which way nothing gets through: up to the syncer, down to the learner, or both."""

    name = "network.freeze"
    summary = "the link stands still; nothing is lost"
    imitates = "a path that stalls and loses nothing: a full buffer, a stopped middlebox"
    effect = Freeze()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPartition(_Silence):
    """The targets are cut off from the syncer and everybody on its side, all in one moment.

    As in a network whose packets find no way: TCP keeps what was on its way and tries again.
    Learners reach each other by the syncer alone, so the groups are the targets and the rest.
    """

    direction: Direction = Direction.BOTH
    """both: nobody hears anybody; up: the syncer does not hear them; down: they do not hear it."""

    name = "network.partition"
    summary = "a group of learners is cut off from the syncer and the others"
    imitates = "a split between sites"
    effect = Freeze()
