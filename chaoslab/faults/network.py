"""Faults by which a link carries everything, but late, slowly or in pieces.

What proves each is measured where bytes arrive, beside what was asked, within a stated tolerance.
Learners stay in training: none is taken away.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import Bytes, BytesPerSecond, Duration, plural
from chaoslab.faults.actions import OneEffect
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import (
    Tolerance,
    chunk_bytes,
    closings,
    look_delayed,
    look_paced,
    reports,
    unclaimed,
)
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.links.effects import (
    Bandwidth,
    Direction,
    JitterShape,
    Latency,
    LimitData,
    Per,
    Slice,
)

DELAY = Tolerance(low=0.7, high=1.5, room=0.025)
"""A busy machine answers late, and a chunk that waits for an earlier one is later still."""
RATE = Tolerance(low=0.5, high=1.4)
"""Rates are kept over tenths of seconds, and payloads share them with everything else."""
_ANSWERED_S = 0.15
"""A pull is answered in time for all that such a round trip takes more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLatency(OneEffect):
    """Every byte arrives later, each way by `mean`; a round trip takes the sum of both ways."""

    mean_s: Duration = 0.1
    """Mean of the added delay, one way, in each requested direction."""
    jitter_s: Duration = 0.0
    """Half the width of the uniform distribution, the standard deviation of the others."""
    distribution: JitterShape = JitterShape.UNIFORM
    """Distribution of the delays; toxiproxy knows uniform alone."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.latency"
    summary = "every byte of the link arrives later"
    strength: ClassVar[Mapping[str, float]] = {"mean_s": 0.0, "jitter_s": 0.0}
    imitates = "a longer route between regions; behind a proxy connecting stays as fast"
    proof = f"round trip of pings beside the stream, more than before; {DELAY}"
    takes_away = False

    @property
    def may_silence(self) -> bool:
        """A syncer waits for an answer for 0.25 s after the quorum, whatever the others took."""
        return len(self.direction.ways) * (self.mean_s + self.jitter_s) > _ANSWERED_S

    def __post_init__(self) -> None:
        if self.mean_s <= 0:
            raise PlanError("`mean` is a duration above 0s")
        self.shapings()

    @property
    def effect(self) -> Latency:
        return Latency(mean_s=self.mean_s, jitter_s=self.jitter_s, shape=self.distribution)

    def requested(self) -> Mapping[str, Json]:
        return {"added_rtt_s": self._added_s, "jitter_s": self.jitter_s}

    def look(self, window: EvidenceWindow) -> Found:
        """The round trip against the one before."""
        return look_delayed(window, self._added_s, DELAY, is_steady=not self.jitter_s)

    @property
    def _added_s(self) -> float:
        return len(self.direction.ways) * self.mean_s


class _Slows(OneEffect):
    """A fault by which a link carries less in each second."""

    __slots__ = ()

    takes_away = False

    @property
    @abstractmethod
    def most_bytes_per_s(self) -> float:
        """Expected rate of payloads."""

    def requested(self) -> Mapping[str, Json]:
        return {f"{way}_bytes_per_s": self.most_bytes_per_s for way in self.direction.ways}

    def look(self, window: EvidenceWindow) -> Found:
        """The rate at which payloads arrived."""
        return look_paced(window, self.direction, self.most_bytes_per_s, RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkBandwidth(_Slows):
    """Limit the rate of the link, in each direction that is asked for."""

    rate_bytes_per_s: BytesPerSecond = 1e6
    """Rate of the stream, without the kernel's overhead."""
    per: Per = Per.LINK
    """toxiproxy limits each connection by itself; a learner has one."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.bandwidth"
    summary = "the rate of the link is limited"
    strength: ClassVar[Mapping[str, float]] = {"rate_bytes_per_s": math.inf}
    imitates = "a thin or shared WAN link; never the interconnect of the chips"
    proof = f"throughput of real fragments where they arrive; {RATE}"

    @property
    def effect(self) -> Bandwidth:
        return Bandwidth(rate_bytes_per_s=self.rate_bytes_per_s, per=self.per)

    @property
    def most_bytes_per_s(self) -> float:
        return self.rate_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlice(_Slows):
    """The stream arrives in small pieces with a pause after each."""

    size_bytes: Bytes = 1000
    """Largest size of a piece."""
    delay_s: Duration = 0.01
    """Between two pieces. Without any, no record shows that the stream was cut."""
    direction: Direction = Direction.BOTH
    """up: to the syncer; down: to the learner."""

    name = "network.slice"
    summary = "the stream arrives in small pieces, one after the other"
    strength: ClassVar[Mapping[str, float]] = {"delay_s": 0.0}
    imitates = "a path that delivers in small pieces: a small MTU, a slow middlebox"
    proof = f"throughput of real fragments against size / delay; {RATE}"

    def __post_init__(self) -> None:
        if self.delay_s <= 0:
            raise PlanError(
                "`delay` is a duration above 0s: pieces without a pause are just a stream"
            )
        self.shapings()

    @property
    def effect(self) -> Slice:
        """Pieces of that size, and the pause after each."""
        return Slice(size_bytes=self.size_bytes, delay_s=self.delay_s)

    @property
    def most_bytes_per_s(self) -> float:
        return self.size_bytes / self.delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimitData(OneEffect):
    """End each connection once it has carried a number of bytes; the next one may carry as many."""

    size_bytes: Bytes = 200_000
    """Bytes of the stream, from the injection or from the connection's beginning."""
    direction: Direction = Direction.UP
    """Direction in which bytes are counted; with both, each separately."""

    name = "network.limit_data"
    summary = "each connection ends after a number of bytes"
    strength: ClassVar[Mapping[str, float]] = {"size_bytes": math.inf}
    imitates = "a middlebox that ends connections after a number of bytes"
    proof = f"the learner's streams broke off, each with about `size` bytes; {RATE}"
    takes_away = True
    comes_back = True

    @property
    def effect(self) -> LimitData:
        return LimitData(size_bytes=self.size_bytes)

    def requested(self) -> Mapping[str, Json]:
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
            f"had {plural(len(ended), 'stream')} broken off after {most / 1e3:,.0f} kB each; "
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

    A message that broke off in its middle, of a chunk at most, is not counted.
    """
    had = [e.payload.bytes for e in reports(window.before, way)][-1:]
    seen = [e.payload.bytes for e in reports(window.during, way) if e.time_s <= until_s]
    return max(seen, default=0) - (had[0] if had else 0)
