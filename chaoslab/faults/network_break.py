"""Faults by which connections end: refuse, reset, flap, half_open.

A refused dial says no at once, a reset connection may be dialled again, a link that flaps does both
in turns, and a half-open connection is dead at one end while the other is not told. The learner
must be back when the fault is healed.
"""

from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.faults.base import Layer
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import closings, failed_dials, is_soon, openings, was_open
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.faults.link import LinkFault, clear_all, shape_all
from chaoslab.fleet.base import Fleet
from chaoslab.links.base import Direction, HalfOpen, Refuse, Reset, Shaping
from chaoslab.plan.model import Injection


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRefuse(LinkFault):
    """Open connections end and new ones are refused, as if nobody listened."""

    name: ClassVar[str] = "network.refuse"
    summary: ClassVar[str] = "connections end, and new ones are refused"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a host without its service, or a load balancer that turns it away"
    proof: ClassVar[str] = "the learner's stream ended at once and no dial was answered"
    takes_away: ClassVar[bool] = True

    def shapings(self) -> tuple[Shaping, ...]:
        """Both directions refuse connections."""
        return ((Direction.BOTH, Refuse()),)

    def requested(self) -> dict[str, Json]:
        """No stream opened during the fault."""
        return {"streams_opened": 0}

    def look(self, window: EvidenceWindow) -> Found:
        """The end of the stream, and what came of the dials after it."""
        if not was_open(window):
            return no_evidence(Code.NO_STREAM, "had no stream when the fault began")
        ended = next(iter(closings(window)), None)
        if ended is None:
            return no_evidence(Code.NO_EFFECT, "kept its stream")
        opened, failed = openings(window), failed_dials(window)
        down_s = (opened[0].time_s if opened else window.end_s) - ended.time_s
        return Found(
            code=Code.WORKED_MEANWHILE if opened else window.lasted(down_s),
            text=f"lost its stream after {ended.time_s - window.begin_s:.1f} s and had none for "
            f"{down_s:.1f} s; {len(failed)} dials failed",
            measured={
                "streams_opened": len(opened),
                "dials_failed": len(failed),
                "down_s": down_s,
            },
            proof=(ended, *failed[:1], *opened[:1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReset(LinkFault):
    """Open connections break off at once and may be opened again; once, or several times."""

    times: int = 1
    """How often."""
    every_s: float = 4.0
    """From one time to the next; a learner needs a moment to be back."""

    name: ClassVar[str] = "network.reset"
    summary: ClassVar[str] = "connections break off, once or again and again"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a NAT or middlebox that forgets its connections"
    proof: ClassVar[str] = "the learner's stream ended as often as asked, each time at once"
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: connections are reset at least once")
        if self.every_s <= 0:
            raise PlanError("`every` is a duration above 0s")

    def shapings(self) -> tuple[Shaping, ...]:
        """An act: it leaves nothing to clear."""
        return ((Direction.BOTH, Reset()),)

    def steps(self) -> tuple[float, ...]:
        """The second time and all later ones."""
        return tuple(self.every_s * number for number in range(1, self.times))

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:  # noqa: ARG002 - alike
        """Reset the connections once more."""
        shape_all(injection, fleet, self.shapings())

    def requested(self) -> dict[str, Json]:
        """How many streams are to end."""
        return {"streams_ended": self.times}

    def look(self, window: EvidenceWindow) -> Found:
        """Ends of streams that followed a reset at once."""
        if not was_open(window):
            return no_evidence(Code.NO_STREAM, "had no stream when the fault began")
        ended = _struck(window, [self.every_s * number for number in range(self.times)])
        text = f"had its stream broken off {len(ended)} times; {self.times} were asked"
        if not ended:
            return no_evidence(Code.NO_EFFECT, text, streams_ended=0)
        return Found(
            code=Code.AS_ASKED if len(ended) >= self.times else Code.FEWER_TIMES,
            text=text,
            measured={"streams_ended": len(ended), "streams_opened": len(openings(window))},
            proof=tuple(ended),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFlap(LinkFault):
    """The link goes down and comes up again, several times: down, connections are refused."""

    times: int = 3
    """How often it goes down."""
    down_s: float = 2.0
    """For how long each time."""
    up_s: float = 4.0
    """And how long it is up between two of them."""

    name: ClassVar[str] = "network.flap"
    summary: ClassVar[str] = "the link goes down and comes up, again and again"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "an unstable link or route"
    proof: ClassVar[str] = "the learner's stream ended as often as asked, each time at once"
    takes_away: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: a link that flaps goes down at least once")
        if self.down_s <= 0 or self.up_s <= 0:
            raise PlanError("`down` and `up` are durations above 0s")

    def shapings(self) -> tuple[Shaping, ...]:
        """While it is down, connections are refused."""
        return ((Direction.BOTH, Refuse()),)

    def steps(self) -> tuple[float, ...]:
        """Up, down, up, …; the last is up."""
        return tuple(
            self._period_s * number + offset_s
            for number in range(self.times)
            for offset_s in (0.0, self.down_s)
        )[1:]

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:
        """Up at even steps, down at odd ones."""
        if step_index % 2:
            shape_all(injection, fleet, self.shapings())
        else:
            clear_all(injection, fleet)

    def requested(self) -> dict[str, Json]:
        """How often, and for how long."""
        return {"streams_ended": self.times, "down_s": self.down_s}

    def look(self, window: EvidenceWindow) -> Found:
        """Ends of streams that followed a fall of the link at once."""
        if not was_open(window):
            return no_evidence(Code.NO_STREAM, "had no stream when the fault began")
        ended = _struck(window, [self._period_s * number for number in range(self.times)])
        failed = failed_dials(window)
        text = f"went down {len(ended)} times with a stream on it; {self.times} were asked"
        if not ended:
            return no_evidence(Code.NO_EFFECT, text, streams_ended=0)
        return Found(
            code=Code.AS_ASKED if len(ended) >= self.times else Code.FEWER_TIMES,
            text=text,
            measured={"streams_ended": len(ended), "dials_failed": len(failed)},
            proof=(*ended, *failed[:1]),
        )

    @property
    def _period_s(self) -> float:
        return self.down_s + self.up_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkHalfOpen(LinkFault):
    """Open connections lose one end and the other is not told; new ones work."""

    direction: Direction = Direction.DOWN
    """up: the learner's end breaks, the syncer keeps a silent one; down: the other way round; both:
    the middle forgot the connection and both ends keep theirs."""

    name: ClassVar[str] = "network.half_open"
    summary: ClassVar[str] = "one end of the connection breaks and the other is not told"
    layer: ClassVar[Layer] = Layer.STREAM
    imitates: ClassVar[str] = "a NAT entry that expires in one direction; a peer that lost power"
    proof: ClassVar[str] = "the learner's stream ended: at once (up), or not before it was missed"
    takes_away: ClassVar[bool] = True

    def shapings(self) -> tuple[Shaping, ...]:
        """One end of each connection breaks."""
        return ((self.direction, HalfOpen()),)

    def requested(self) -> dict[str, Json]:
        """How the learner's stream should end."""
        return {"learner_is_told": self.direction is Direction.UP}

    def look(self, window: EvidenceWindow) -> Found:
        """When the learner's stream ended."""
        if not was_open(window):
            return no_evidence(Code.NO_STREAM, "had no stream when the fault began")
        ended = next(iter(closings(window)), None)
        after_s = (ended.time_s if ended else window.end_s) - window.begin_s
        measured: dict[str, Json] = {
            "learner_is_told": ended is not None and is_soon(window, ended),
            "learner_noticed_after_s": after_s if ended else None,
        }
        text = f"noticed after {after_s:.1f} s that its stream was dead"
        if ended is None:
            text = f"did not notice for {after_s:.1f} s that its stream was dead"
            code = Code.NO_EFFECT
        elif measured["learner_is_told"] == (self.direction is Direction.UP):
            code = Code.AS_ASKED
        else:
            code = Code.WRONG_MOMENT
        return Found(code=code, text=text, measured=measured, proof=(ended,))


def _struck(window: EvidenceWindow, strokes_s: list[float]) -> list[Event]:
    """Of each stroke, the first end of a stream that it brought about."""
    ended = closings(window)
    found = [next((e for e in ended if is_soon(window, e, at_s)), None) for at_s in strokes_s]
    return list({e.seq: e for e in found if e is not None}.values())
