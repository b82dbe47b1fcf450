"""Faults by which a link carries everything, but late, slowly, in pieces or with losses.

What proves each is measured where bytes arrive, beside what was asked, within a stated tolerance.
Learners stay in training: nobody is taken away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkCounted
from chaoslab.core.units import Share
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import (
    Tolerance,
    chunk_bytes,
    closings,
    look_delayed,
    look_paced,
    reports,
    round_trip_s,
    unclaimed,
)
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of
from chaoslab.faults.link import LinkFault
from chaoslab.links.base import (
    Bandwidth,
    Direction,
    JitterShape,
    Latency,
    LimitData,
    Loss,
    Per,
    Shaping,
    Slice,
)

DELAY = Tolerance(low=0.7, high=1.5, room=0.025)
"""A busy machine answers late, and a chunk that waits for an earlier one is later still."""
RATE = Tolerance(low=0.5, high=1.4)
"""Rates are kept over tenths of seconds, and payloads share them with everything else."""
SHARE = Tolerance(low=0.6, high=1.4)
_DROPS_LEAST = 10
"""So few of them say little about a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLatency(LinkFault):
    """Every byte arrives later, each way by `mean`; a round trip takes the sum of both ways."""

    mean_s: float = 0.1
    """One way, in each direction that is asked for."""
    jitter_s: float = 0.0
    """Half the width of the uniform distribution, the standard deviation of the others."""
    distribution: JitterShape = JitterShape.UNIFORM
    """How delays spread; toxiproxy knows uniform alone."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name: ClassVar[str] = "network.latency"
    summary: ClassVar[str] = "every byte of the link arrives later"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = (
        "a longer route between regions; behind a proxy connecting stays as fast"
    )
    proof: ClassVar[str] = f"round trip of pings beside the stream, more than before; {DELAY}"
    takes_away: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.mean_s <= 0:
            raise PlanError("`mean` is a duration above 0s")
        self.shapings()

    def shapings(self) -> tuple[Shaping, ...]:
        """One delay each way."""
        effect = Latency(mean_s=self.mean_s, jitter_s=self.jitter_s, shape=self.distribution)
        return ((self.direction, effect),)

    def requested(self) -> dict[str, Json]:
        """The round trip's growth."""
        return {"added_rtt_s": self._added_s, "jitter_s": self.jitter_s}

    def look(self, window: EvidenceWindow) -> Found:
        """The round trip against the one before."""
        return look_delayed(window, self._added_s, DELAY, is_steady=not self.jitter_s)

    @property
    def _added_s(self) -> float:
        return len(self.direction.ways) * self.mean_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkBandwidth(LinkFault):
    """The link carries at most so many bytes per second in each direction that is asked for."""

    rate_bytes_per_s: float = 1e6
    """Of the stream, without what the kernel adds to it."""
    per: Per = Per.LINK
    """toxiproxy limits each connection by itself; a learner has one."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name: ClassVar[str] = "network.bandwidth"
    summary: ClassVar[str] = "the link carries only so many bytes per second"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a thin or shared WAN link; never the interconnect of the chips"
    proof: ClassVar[str] = f"throughput of real fragments where they arrive; {RATE}"
    takes_away: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.shapings()

    def shapings(self) -> tuple[Shaping, ...]:
        """One limit each way."""
        return ((self.direction, Bandwidth(rate_bytes_per_s=self.rate_bytes_per_s, per=self.per)),)

    def requested(self) -> dict[str, Json]:
        """The rate, by direction."""
        return {f"{way}_bytes_per_s": self.rate_bytes_per_s for way in self.direction.ways}

    def look(self, window: EvidenceWindow) -> Found:
        """The rate at which payloads arrived."""
        return look_paced(window, self.direction, self.rate_bytes_per_s, RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlice(LinkFault):
    """The stream arrives in small pieces with a pause after each."""

    size_bytes: int = 1000
    """Of a piece, at most."""
    delay_s: float = 0.01
    """Between two pieces. Without any nobody could tell that the stream was cut."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name: ClassVar[str] = "network.slice"
    summary: ClassVar[str] = "the stream arrives in small pieces, one after the other"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a path that delivers in small pieces: a small MTU, a slow middlebox"
    proof: ClassVar[str] = f"throughput of real fragments against size / delay; {RATE}"
    takes_away: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delay_s <= 0:
            raise PlanError(
                "`delay` is a duration above 0s: pieces without a pause are just a stream"
            )
        self.shapings()

    def shapings(self) -> tuple[Shaping, ...]:
        """One knife each way."""
        return ((self.direction, Slice(size_bytes=self.size_bytes, delay_s=self.delay_s)),)

    def requested(self) -> dict[str, Json]:
        """The rate that size and delay come to, by direction."""
        return {f"{way}_bytes_per_s": self._rate for way in self.direction.ways}

    def look(self, window: EvidenceWindow) -> Found:
        """The rate at which payloads arrived."""
        return look_paced(window, self.direction, self._rate, RATE)

    @property
    def _rate(self) -> float:
        return self.size_bytes / self.delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLoss(LinkFault):
    """A share of the packets is dropped below TCP, which sends them again."""

    share: Share = 0.01
    """Of the link's packets, in each direction that is asked for."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name: ClassVar[str] = "network.loss"
    summary: ClassVar[str] = "packets are lost and TCP sends them again"
    layer: ClassVar[Layer] = Layer.PACKET
    imitates: ClassVar[str] = "a lossy path: TCP sends again and slows down"
    proof: ClassVar[str] = f"packets of the link that the kernel counted and dropped; {SHARE}"
    takes_away: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.shapings()

    def shapings(self) -> tuple[Shaping, ...]:
        """One rule each way."""
        return ((self.direction, Loss(share=self.share)),)

    def requested(self) -> dict[str, Json]:
        """The share of packets to drop."""
        return {"dropped_share": self.share}

    def look(self, window: EvidenceWindow) -> Found:
        """The kernel's counters, from before the fault to just before its heal."""
        counted = _packets(window.during)
        if not counted:
            return no_evidence(Code.NOT_MEASURED, "has no packets counted on its link")
        last, packets, dropped = counted[-1]
        for _, earlier, earlier_dropped in _packets(window.before)[-1:]:
            packets, dropped = packets - earlier, dropped - earlier_dropped
        return self._judge(packets, dropped, window, last)

    def _judge(self, packets: int, dropped: int, window: EvidenceWindow, counted: Event) -> Found:
        share = dropped / packets if packets else 0.0
        measured: Mapping[str, Json] = {
            "dropped_share": share,
            "packets": packets,
            "dropped": dropped,
            "rtt_s": round_trip_s(reports(window.during)),
        }
        text = (
            f"lost {dropped} of {packets} packets ({share:.1%}); "
            f"{self.share:.1%} were asked ({SHARE})"
        )
        if not dropped:
            return no_evidence(Code.NO_EFFECT, text, **measured)
        is_near = SHARE.holds(share, self.share) and dropped >= _DROPS_LEAST
        return Found(
            code=Code.AS_ASKED if is_near else Code.OUT_OF_TOLERANCE,
            text=text,
            measured=measured,
            proof=(counted,),
        )


def _packets(events: Iterable[Event]) -> list[tuple[Event, int, int]]:
    """The events that count packets, with how many were looked at and dropped."""
    return [
        (e, e.payload.packets, e.payload.dropped or 0)
        for e in of(events, LinkCounted)
        if e.payload.packets is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimitData(LinkFault):
    """A connection ends once it has carried so many bytes; the next one has as many again."""

    size_bytes: int = 200_000
    """Of the stream, from the injection or from the connection's beginning."""
    direction: Direction = Direction.UP
    """Which way bytes are counted; with both, each way for itself."""

    name: ClassVar[str] = "network.limit_data"
    summary: ClassVar[str] = "connections end after so many bytes, again and again"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a middlebox that ends connections after so many bytes"
    proof: ClassVar[str] = f"the learner's streams broke off, each with about so many bytes; {RATE}"
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.shapings()

    def shapings(self) -> tuple[Shaping, ...]:
        """One limit each way."""
        return ((self.direction, LimitData(size_bytes=self.size_bytes)),)

    def requested(self) -> dict[str, Json]:
        """The bytes of a stream."""
        return {"bytes_of_a_stream": self.size_bytes}

    def look(self, window: EvidenceWindow) -> Found:
        """Streams that ended by themselves, and what they carried on the average."""
        ended, all_ended = unclaimed(window), closings(window)
        if not all_ended:
            return no_evidence(Code.NO_EFFECT, "had no stream that broke off")
        if not ended:
            text = "had no stream that broke off but by another fault"
            return no_evidence(Code.OTHER_FAULT, text)
        until_s = ended[-1].time_s + 1.5  # the report on the second in which it ended
        most = max(_carried(window, way, until_s) for way in self.direction.ways) / len(ended)
        measured: dict[str, Json] = {"streams_ended": len(ended), "bytes_of_a_stream": most}
        text = (
            f"had {len(ended)} streams broken off after {most / 1e3:,.0f} kB each; "
            f"{self.size_bytes / 1e3:,.0f} kB were asked ({RATE})"
        )
        uncounted = max(chunk_bytes(window, way) for way in self.direction.ways)
        if most < RATE.low * self.size_bytes - uncounted:
            text = f"{text}, and what carries so little ends for another reason"
            return no_evidence(Code.OTHER_CAUSE, text, **measured)
        is_near = most <= RATE.high * self.size_bytes
        return Found(
            code=Code.AS_ASKED if is_near else Code.OUT_OF_TOLERANCE,
            text=text,
            measured=measured,
            proof=(ended[0], ended[-1]),
        )


def _carried(window: EvidenceWindow, way: Direction, until_s: float) -> int:
    """Bytes that arrived that way from the injection to about then, as far as was reported.

    A message that broke off in its middle, of a chunk at most, is counted by nobody.
    """
    had = [e.payload.bytes for e in reports(window.before, way)][-1:]
    seen = [e.payload.bytes for e in reports(window.during, way) if e.time_s <= until_s]
    return max(seen, default=0) - (had[0] if had else 0)
