"""Faults by which connections end: refuse, reset, flap, half_open.

A refused dial says no at once, a reset connection may be dialled again, a link that flaps does both
in turns, and a half-open connection is dead at one end while the other is not told. The learner
must be back when the fault is healed.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.units import Duration, delay, elapsed, plural
from chaoslab.faults.actions import OneEffect, clear_all, shape_all
from chaoslab.faults.base import Choices
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import closings, failed_attempts, is_soon, openings, was_open
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.fleet.base import Fleet
from chaoslab.links.effects import Direction, HalfOpen, Refuse, Reset
from chaoslab.plan.model import Injection


class _BreaksStream(OneEffect):
    """A fault by which the streams of its targets end."""

    __slots__ = ()

    takes_away = True
    comes_back = True

    def look(self, window: EvidenceWindow) -> Found:
        """Findings about the stream, if there was one."""
        if not was_open(window):
            return no_evidence(Code.NO_STREAM, "had no stream when the fault began")
        return self.look_at_stream(window)

    @abstractmethod
    def look_at_stream(self, window: EvidenceWindow) -> Found:
        """Findings about a target that had a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRefuse(_BreaksStream):
    """Open connections end and new ones are refused, as if no server listened."""

    name = "network.refuse"
    summary = "connections end, and new ones are refused"
    imitates = "a host without its service, or a load balancer that turns it away"
    proof = "the learner's stream ended at once and no attempt was answered"
    comes_back = False
    direction = Direction.BOTH
    effect = Refuse()

    def requested(self) -> Mapping[str, Json]:
        return {"streams_opened": 0}

    def look_at_stream(self, window: EvidenceWindow) -> Found:
        """The end of the stream, and what came of the dials after it."""
        ended = next(iter(closings(window)), None)
        if ended is None:
            return no_evidence(Code.NO_EFFECT, "kept its stream")
        opened, failed = openings(window), failed_attempts(window)
        down_s = (opened[0].time_s if opened else window.end_s) - ended.time_s
        return Found(
            code=Code.WORKED_MEANWHILE if opened else window.lasted(down_s),
            text=f"lost its stream {delay(ended.time_s - window.begin_s)} and had none for "
            f"{elapsed(down_s)}; {plural(len(failed), 'attempt')} failed",
            measured={
                "streams_opened": len(opened),
                "attempts_failed": len(failed),
                "down_s": down_s,
            },
            proof=(ended, *failed[:1], *opened[:1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReset(_BreaksStream):
    """Open connections break off at once and may be opened again; once, or several times."""

    times: int = 1
    """Number of resets."""
    every_s: Duration = 4.0
    """Time between two resets; a learner needs a moment to be back."""

    name = "network.reset"
    summary = "connections break off, once or again and again"
    strength: ClassVar[Mapping[str, float]] = {"times": 0.0}
    imitates = "a NAT or middlebox that forgets its connections"
    proof = "the learner's stream ended as often as asked, each time at once"
    direction = Direction.BOTH
    effect = Reset()

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: connections are reset at least once")
        if self.every_s <= 0:
            raise PlanError("`every` is a duration above 0s")

    def steps(self) -> tuple[float, ...]:
        """The second time and all later ones."""
        return tuple(self.every_s * number for number in range(1, self.times))

    def step(self, step_index: int, injection: Injection, fleet: Fleet) -> None:  # noqa: ARG002 - alike
        """Reset the connections once more."""
        shape_all(injection, fleet, self.shapings())

    def requested(self) -> Mapping[str, Json]:
        return {"streams_ended": self.times}

    def look_at_stream(self, window: EvidenceWindow) -> Found:
        """Ends of streams that followed a reset at once."""
        times_s = [self.every_s * number for number in range(self.times)]
        also: Mapping[str, Json] = {"streams_opened": len(openings(window))}
        return _look_struck(window, times_s, "had its stream broken off {}", also)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFlap(_BreaksStream):
    """The link goes down and comes up again, several times: down, connections are refused."""

    times: int = 3
    """Number of times it goes down."""
    down_s: Duration = 2.0
    """Time for which it is down each time."""
    up_s: Duration = 4.0
    """Time for which it is up in between."""

    name = "network.flap"
    summary = "the link goes down and comes up, again and again"
    strength: ClassVar[Mapping[str, float]] = {"times": 0.0, "down_s": 0.0}
    imitates = "an unstable link or route"
    proof = "the learner's stream ended as often as asked, each time at once"
    direction = Direction.BOTH
    effect = Refuse()

    def __post_init__(self) -> None:
        if self.times < 1:
            raise PlanError(f"`times: {self.times}`: a link that flaps goes down at least once")
        if self.down_s <= 0 or self.up_s <= 0:
            raise PlanError("`down` and `up` are durations above 0s")

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

    def requested(self) -> Mapping[str, Json]:
        return {"streams_ended": self.times, "down_s": self.down_s}

    def look_at_stream(self, window: EvidenceWindow) -> Found:
        """Ends of streams that followed a fall of the link at once."""
        times_s = [self._period_s * number for number in range(self.times)]
        failed = failed_attempts(window)
        also: Mapping[str, Json] = {"attempts_failed": len(failed)}
        says = "went down {} with a stream on it"
        return _look_struck(window, times_s, says, also, *failed[:1])

    @property
    def _period_s(self) -> float:
        return self.down_s + self.up_s


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkHalfOpen(_BreaksStream):
    """Open connections lose one end and the other is not told; new ones work."""

    direction: Direction = Direction.DOWN
    """up: the learner's end breaks, the syncer keeps a silent one; down: the other way round; both:
    the middle forgot the connection and both ends keep theirs."""

    name = "network.half_open"
    summary = "one end of the connection breaks and the other is not told"
    narrower: ClassVar[Choices] = {}
    """Each direction is another failure, and none is part of the other two."""
    imitates = "a NAT entry that expires in one direction; a peer that lost power"
    proof = "the learner's stream ended: at once (up), or not before it was missed"
    effect = HalfOpen()

    def requested(self) -> Mapping[str, Json]:
        return {"learner_is_told": self.direction is Direction.UP}

    def look_at_stream(self, window: EvidenceWindow) -> Found:
        """Time of the end of the learner's stream."""
        ended = next(iter(closings(window)), None)
        after_s = (ended.time_s if ended else window.end_s) - window.begin_s
        measured: dict[str, Json] = {
            "learner_is_told": ended is not None and is_soon(window, ended),
            "learner_noticed_after_s": after_s if ended else None,
        }
        text = f"noticed {delay(after_s)} that its stream was dead"
        if ended is None:
            text = f"did not notice for {after_s:.1f} s that its stream was dead"
            code = Code.NO_EFFECT
        elif measured["learner_is_told"] == (self.direction is Direction.UP):
            code = Code.AS_ASKED
        else:
            code = Code.WRONG_MOMENT
        return Found(code=code, text=text, measured=measured, proof=(ended,))


def _asked(times: int) -> str:
    return "1 was asked" if times == 1 else f"{times} were asked"


def _look_struck(
    window: EvidenceWindow,
    times_s: Sequence[float],
    says: str,
    also: Mapping[str, Json],
    *proof: Event,
) -> Found:
    """First end of a stream that each strike brought about."""
    closed = closings(window)
    found = [next((e for e in closed if is_soon(window, e, at_s)), None) for at_s in times_s]
    ended = list({e.seq: e for e in found if e is not None}.values())
    text = f"{says.format(plural(len(ended), 'time'))}; {_asked(len(times_s))}"
    if not ended:
        return no_evidence(Code.NO_EFFECT, text, streams_ended=0)
    return Found(
        code=Code.AS_ASKED if len(ended) >= len(times_s) else Code.FEWER_TIMES,
        text=text,
        measured={"streams_ended": len(ended), **also},
        proof=(*ended, *proof),
    )
