"""Faults on packets below a link's stream that only the kernel's netem can do.

    network.duplicate, network.reorder, network.corrupt ─► tc netem, on a kernel that has sch_netem

Netem does not count the packets that it changes, so the best evidence is weak: the link took the
effect and carried traffic. TCP repairs all three, so learners stay in training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.payloads import LinkShaped
from chaoslab.core.units import Duration, Share
from chaoslab.faults.actions import OneEffect
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import reports, round_trip_s, whole
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.links.effects import Corrupt, Direction, Duplicate, Reorder


class _Shaken(OneEffect):
    """Something that happens to a share of the packets, by netem."""

    __slots__ = ()

    share: Share

    strength: ClassVar[Mapping[str, float]] = {"share": 0.0}
    layer = Layer.PACKET
    proof = "weak at best: netem took it and traffic went on; nobody counts packets"
    takes_away = False

    def requested(self) -> Mapping[str, Json]:
        return {"share": self.share}

    def look(self, window: EvidenceWindow) -> Found:
        """That it was put on a link that carried traffic: more is not to be had."""
        shaped = window.first(LinkShaped, lambda e: e.payload.injection == window.injection.id)
        if shaped is None:
            return no_evidence(Code.NOT_APPLIED, "had a link on which nothing was put")
        seen = whole(window, reports(window.during))
        carried = [e for e in seen if e.payload.silent_s < e.payload.window_s]
        if not carried:
            return no_evidence(Code.NO_TRAFFIC, "carried no traffic during the fault")
        return Found(
            code=Code.NOT_COUNTED,
            text=f"carried traffic with {self.effect.kind} on its packets, by the word of netem; "
            "nothing counted the packets that suffered",
            measured={
                "share": None,
                "rtt_s": round_trip_s(seen),
                "usual_rtt_s": round_trip_s(reports(window.calm)),
            },
            proof=(shaped, carried[0], carried[-1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDuplicate(_Shaken):
    """A share of the packets arrives twice.

    Kernels since 2025 refuse this beside other effects of netem on the same machine or gateway.
    """

    share: Share = 0.01
    """Of the link's packets, in each direction that is asked for."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.duplicate"
    summary = "packets arrive twice; needs sch_netem"
    imitates = "a routing fault that delivers packets twice"

    @property
    def effect(self) -> Duplicate:
        return Duplicate(share=self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReorder(_Shaken):
    """A share of the packets overtakes the others, which are late."""

    share: Share = 0.01
    """Of the link's packets, in each direction that is asked for: those that are not late."""
    delay_s: Duration = 0.01
    """By which all other packets are late."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.reorder"
    summary = "packets overtake each other; needs sch_netem"
    strength: ClassVar[Mapping[str, float]] = {"share": 0.0, "delay_s": 0.0}
    imitates = "routing over several paths of different length"

    def __post_init__(self) -> None:
        if self.delay_s <= 0:
            raise PlanError("`delay` is a duration above 0s: without one nothing is overtaken")
        self.shapings()

    @property
    def effect(self) -> Reorder:
        return Reorder(share=self.share, delay_s=self.delay_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCorrupt(_Shaken):
    """A share of the packets has a bit flipped, and TCP drops them."""

    share: Share = 0.01
    """Of the link's packets, in each direction that is asked for."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.corrupt"
    summary = "packets arrive with a flipped bit; needs sch_netem"
    imitates = "a bad cable or card; checksums turn it into loss"

    @property
    def effect(self) -> Corrupt:
        return Corrupt(share=self.share)
