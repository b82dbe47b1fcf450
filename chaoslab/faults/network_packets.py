"""Fault on the packets below a link's stream: lost, doubled, reordered or corrupted.

    loss                         ─► iptables or tc netem, which count what they drop
    duplicate, reorder, corrupt  ─► tc netem, on a kernel that has sch_netem

Netem does not count the packets that it changes otherwise, so the best evidence of these is weak:
the link took the effect and carried traffic. TCP repairs all four, so learners stay in training.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkCounted, LinkShaped
from chaoslab.core.units import Duration, Share
from chaoslab.faults.actions import OneEffect
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import Tolerance, reports, round_trip_s, whole
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.links.effects import Corrupt, Direction, Duplicate, Loss, PacketEffect, Reorder

SHARE: Final = Tolerance(low=0.6, high=1.4)
_DROPS_LEAST = 10
"""Fewest drops that show a share."""


class Packets(StrEnum):
    """Effect on a packet."""

    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPackets(OneEffect):
    """Something happens to a share of the packets, and TCP repairs it."""

    how: Packets = Packets.LOSS
    """loss: dropped below TCP, which sends again; duplicate: they arrive twice; reorder: they
    overtake the others, which are late by `delay`; corrupt: a bit is flipped, and TCP drops them.
    All but loss need sch_netem; kernels since 2025 refuse duplicates beside its other effects."""
    share: Share = 0.01
    """Share of the link's packets, in each requested direction."""
    delay_s: Duration = 0.01
    """With `how: reorder`: delay of all other packets."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.packets"
    summary = "packets are lost, arrive twice, overtake each other or have a flipped bit"
    strength: ClassVar[Mapping[str, float]] = {"share": 0.0}
    layer = Layer.PACKET
    imitates = "a lossy path, a bad cable or card, routing that doubles or reorders"
    proof = (
        f"packets of the link that the kernel counted and dropped ({SHARE}); of all but loss weak "
        "at best: netem took it and traffic went on"
    )
    takes_away = False

    def __post_init__(self) -> None:
        if self.delay_s <= 0:
            raise PlanError("`delay` is a duration above 0s: without one nothing is overtaken")
        self.shapings()

    @property
    def effect(self) -> PacketEffect:
        match self.how:
            case Packets.LOSS:
                return Loss(share=self.share)
            case Packets.DUPLICATE:
                return Duplicate(share=self.share)
            case Packets.REORDER:
                return Reorder(share=self.share, delay_s=self.delay_s)
            case Packets.CORRUPT:
                return Corrupt(share=self.share)

    def requested(self) -> Mapping[str, Json]:
        key = "dropped_share" if self.how is Packets.LOSS else "share"
        return {"how": self.how.value, key: self.share}

    def look(self, window: EvidenceWindow) -> Found:
        """The kernel's count of what it dropped; else that it was put on a link with traffic."""
        if self.how is Packets.LOSS:
            return _look_lost(window, self.share)
        return _look_shaken(window, self.how)


def _look_lost(window: EvidenceWindow, asked: float) -> Found:
    """The kernel's counters, from before the fault to just before its heal."""
    counted = _packets(window.during)
    if not counted:
        return no_evidence(Code.NOT_MEASURED, "has no packets counted on its link")
    last, packets, dropped = counted[-1]
    for _, earlier, earlier_dropped in _packets(window.before)[-1:]:
        packets, dropped = packets - earlier, dropped - earlier_dropped
    share = dropped / packets if packets else 0.0
    measured: Mapping[str, Json] = {
        "dropped_share": share,
        "packets": packets,
        "dropped": dropped,
        "rtt_s": round_trip_s(reports(window.during)),
    }
    text = f"lost {dropped} of {packets} packets ({share:.1%}); {asked:.1%} were asked ({SHARE})"
    if not dropped:
        return no_evidence(Code.NO_EFFECT, text, **measured)
    is_near = SHARE.holds(share, asked) and dropped >= _DROPS_LEAST
    code = Code.AS_ASKED if is_near else Code.OUT_OF_TOLERANCE
    return Found(code=code, text=text, measured=measured, proof=(last,))


def _packets(events: Iterable[Event]) -> list[tuple[Event, int, int]]:
    """The events that count packets, with how many were looked at and dropped."""
    return [
        (e, e.payload.packets, e.payload.dropped or 0)
        for e in of(events, LinkCounted)
        if e.payload.packets is not None
    ]


def _look_shaken(window: EvidenceWindow, how: Packets) -> Found:
    """That netem applied it to a link with traffic: the kernel does not count the packets."""
    shaped = window.first(LinkShaped, lambda e: e.payload.injection == window.injection.id)
    if shaped is None:
        return no_evidence(Code.NOT_APPLIED, "had a link on which nothing was put")
    seen = whole(window, reports(window.during))
    carried = [e for e in seen if e.payload.silent_s < e.payload.window_s]
    if not carried:
        return no_evidence(Code.NO_TRAFFIC, "carried no traffic during the fault")
    return Found(
        code=Code.NOT_COUNTED,
        text=f"carried traffic while netem applied {how}; the affected packets were not counted",
        measured={
            "share": None,
            "rtt_s": round_trip_s(seen),
            "usual_rtt_s": round_trip_s(reports(window.calm)),
        },
        proof=(shaped, carried[0], carried[-1]),
    )
