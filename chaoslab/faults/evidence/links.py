"""Evidence on a link from its two ends: delay, rate, broken streams.

    link.measured (down: the learner's word, up: the syncer's) ─┐
    link.opened, link.closed (the learner's)                   ─┼─► window ─► Found
    calm reports, from before any fault on this link           ─┘

Everything is measured where it arrives; what was asked of the link is never taken for what happened
on it. A stated tolerance decides between proved and weak; a link that carried nothing, or went on
as before, proves nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TypeAlias

from chaoslab.core.events import Event, Json, Kind
from chaoslab.core.payloads import (
    IdlePeriod,
    LinkCleared,
    LinkClosed,
    LinkMeasured,
    LinkOpened,
    LinkRemade,
    LinkShaped,
    Status,
)
from chaoslab.core.units import elapsed
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.duration import Span, lasted
from chaoslab.faults.evidence.window import LAG_S, EvidenceWindow, Found, no_evidence, of
from chaoslab.links.effects import Blackhole, Direction, HalfOpen, LimitData, Refuse, Reset

FRESH_S = 3.0
"""A link whose end reported and received within this time was carrying traffic."""
_CHUNK_BYTES, _CHUNKS = 1 << 20, 4
"""Payloads arrive and are counted in at least about `_CHUNKS` pieces of at most `_CHUNK_BYTES`."""
BREAKING = frozenset(e.kind for e in (Reset, Refuse, HalfOpen, Blackhole, LimitData))
"""Effects that end streams, when they come or when they go."""
_IN_FLIGHT_S = 0.25
"""Bytes sent this shortly before a fault may have been on the way when it began."""
_NOTHING = 0.1
"""Share of the requested effect below which it cannot be told from chance."""
_AS_BEFORE = 0.8
"""Share of its usual rate from which a link counts as unimpeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Range of the measured share of the request within which it is proved."""

    low: float
    high: float
    room: float = 0.0
    """Absolute excess over the request that is allowed in any case, in the same unit."""

    def holds(self, measured: float, asked: float) -> bool:
        """Whether the measured value is near enough."""
        return self.low * asked <= measured <= max(self.high * asked, asked + self.room)

    def code(self, measured: float, asked: float) -> Code:
        """The code of a measured value."""
        return Code.AS_ASKED if self.holds(measured, asked) else Code.OUT_OF_TOLERANCE

    @property
    def wide(self) -> "Tolerance":
        """Tolerance for one window of something that varies from window to window."""
        return replace(self, low=self.low / 2, high=self.high * 2)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"tolerance {self.low:.0%} or more"
        return f"tolerance {self.low:.0%} to {self.high:.0%}"


RoundTrip: TypeAlias = Callable[[LinkMeasured], float | None]
"""Selects a round-trip time of a report."""

# ---------------------------------------------------------------- delay


def look_delayed(
    window: EvidenceWindow, added_s: float, tolerance: Tolerance, *, is_steady: bool = True
) -> Found:
    """The round trip during the fault against the one before; `added_s` sums up both ways.

    Of a steady delay each window's shortest round trip is taken, which tells of the link and not of
    a busy machine; of one that varies the median. Pings on a connection of their own are taken
    where both times have some: those of the stream wait behind its payloads.
    """
    of_stream, of_probe = _ROUND_TRIPS[is_steady]
    calm, seen = reports(window.calm), whole(window, reports(window.during))
    is_probed = None not in (round_trip_s(calm, of_probe), round_trip_s(seen, of_probe))
    round_trip = of_probe if is_probed else of_stream
    usual_s = round_trip_s(calm, round_trip)
    answered = [(e, time_s) for e in seen if (time_s := round_trip(e.payload)) is not None]
    rtt_s = median(time_s for _, time_s in answered) if answered else None
    if usual_s is None:
        return no_evidence(Code.NO_BASELINE, "had no round trip measured before the fault")
    if rtt_s is None:
        text = f"carried no traffic: no ping was answered in {lasted_s(window):.1f} s"
        return no_evidence(Code.NO_TRAFFIC, text)
    more_s = rtt_s - usual_s
    measured: dict[str, Json] = {
        "added_rtt_s": more_s,
        "rtt_s": rtt_s,
        "usual_rtt_s": usual_s,
    }
    if is_probed:
        measured["probes_answered"] = sum(e.payload.probes_answered for e, _ in answered)
    else:
        measured["pings_answered"] = sum(e.payload.pings_answered for e, _ in answered)
    text = (
        f"took {1000 * rtt_s:.0f} ms for a round trip, {1000 * more_s:.0f} ms more than before; "
        f"{1000 * added_s:.0f} ms more were asked ({tolerance})"
    )
    if more_s < _NOTHING * added_s:
        return no_evidence(Code.NO_EFFECT, text, **measured)
    near = tolerance if is_steady else tolerance.wide
    shown = [pinged(e, s) for e, s in answered if near.holds(s - usual_s, added_s)]
    found = Found(
        code=tolerance.code(more_s, added_s),
        text=text,
        measured=measured,
        proof=(answered[0][0], answered[-1][0]),
    )
    return lasted(window, shown).weakens(found, "rtt")


_ROUND_TRIPS: Mapping[bool, tuple[RoundTrip, RoundTrip]] = {
    True: (lambda said: said.rtt_s_min, lambda said: said.probe_rtt_s_min),
    False: (lambda said: said.rtt_s, lambda said: said.probe_rtt_s),
}
"""Round-trip times by pings of the stream, and beside it, by whether the delay varies."""


def pinged(event: Event[LinkMeasured], rtt_s: float) -> Span:
    """Time covered by a window's pings: from the first of them that was sent."""
    return event.time_s - event.payload.window_s - rtt_s, event.time_s


def round_trip_s(
    events: Iterable[Event[LinkMeasured]], round_trip: RoundTrip = lambda said: said.rtt_s
) -> float | None:
    """Median over the windows that the ends reported; None without any."""
    found = [time_s for e in events if (time_s := round_trip(e.payload)) is not None]
    return median(found) if found else None


# ---------------------------------------------------------------- rate


def look_paced(
    window: EvidenceWindow, direction: Direction, asked_per_s: float, tolerance: Tolerance
) -> Found:
    """Rates of payloads during the fault, in each requested direction."""
    found = [_look_way(window, way, asked_per_s, tolerance) for way in direction.ways]
    return worst(found)


def _look_way(
    window: EvidenceWindow, way: Direction, asked_per_s: float, tolerance: Tolerance
) -> Found:
    usual = payload_rate(reports(window.calm, way))
    seen = [
        e
        for e in whole(window, reports(window.during, way))
        if any((e.payload.timed_bytes, e.payload.timed_s))
    ]
    rate = payload_rate(seen)
    low, high = _without_one(seen)
    heard = sum(1 for e in reports(window.during, way) if e.payload.silent_s < FRESH_S)
    measured: dict[str, Json] = {
        f"{way}_bytes_per_s": rate,
        f"usual_{way}_bytes_per_s": usual,
        f"{way}_bytes_per_s_low": low,
        f"{way}_bytes_per_s_high": high,
        f"{way}_payload_bytes": sum(e.payload.payload_bytes for e in seen),
        f"{way}_timed_s": timed_s(seen),
    }
    if not heard:
        return no_evidence(
            Code.NO_TRAFFIC, f"carried no traffic {way} during the fault", **measured
        )
    if rate is None:
        return Found(
            code=Code.NOT_TIMED,
            text=f"carried nothing {way} that was large enough to time",
            measured=measured,
        )
    text = (
        f"took payloads {way} at {rate / 1e3:,.1f} kB/s; "
        f"{asked_per_s / 1e3:,.1f} kB/s were asked ({tolerance})"
    )
    if rate > tolerance.high * asked_per_s and usual and rate >= _AS_BEFORE * usual:
        text = f"{text}, and that is no less than before"
        return no_evidence(Code.NO_EFFECT, text, **measured)
    found = Found(
        code=tolerance.code(rate, asked_per_s),
        text=text,
        measured=measured,
        proof=(seen[0], seen[-1]),
    )
    shown = [
        _transferred(e)
        for e in whole(window, reports(window.during, way))
        if _is_as_asked(e.payload.bytes_per_s, asked_per_s, usual, tolerance)
    ]
    silent = _mute(window, way, tolerance.high * asked_per_s)
    return lasted(window, shown, silent).weakens(found, way.value)


def _is_as_asked(
    rate: float | None, asked: float, usual: float | None, tolerance: Tolerance
) -> bool:
    """Whether the rate of one report is that of the fault.

    A payload of few pieces looks faster than it was, if its first piece comes with its header. It
    is nearer to what was asked than to what is usual all the same.
    """
    if not rate:
        return False
    is_far_below = usual is not None and rate**2 < asked * usual
    return tolerance.holds(rate, asked) or (is_far_below and tolerance.wide.holds(rate, asked))


def _transferred(event: Event[LinkMeasured]) -> Span:
    """Time covered by a window's payloads: a long one began long before."""
    said = event.payload
    return event.time_s - max(said.window_s, said.timed_s), event.time_s


def _mute(window: EvidenceWindow, way: Direction, most_per_s: float) -> list[Span]:
    """Windows in which something arrived, but nothing to time, and no more than might arrive."""
    before = reports(window.before, way)[-1:]
    return [
        (event.time_s - event.payload.window_s, event.time_s)
        for last, event in pairwise([*before, *reports(window.during, way)])
        if not event.payload.bytes_per_s
        and 0
        < event.payload.bytes - last.payload.bytes
        <= most_per_s * event.payload.window_s + chunk_bytes(window, way)
    ]


def chunk_bytes(window: EvidenceWindow, way: Direction) -> int:
    """The most that may be on its way without being counted: one piece of the largest payload."""
    seen = reports([*window.before, *window.during], way)
    largest = max((e.payload.payload_bytes for e in seen), default=0)
    return min(_CHUNK_BYTES, largest // _CHUNKS)


def payload_rate(events: Iterable[Event[LinkMeasured]]) -> float | None:
    """Bytes per second at which the link carried while it was full; None if that was never."""
    reported = [event.payload for event in events]
    took_s = sum(said.timed_s for said in reported)
    return sum(said.timed_bytes for said in reported) / took_s if took_s else None


def timed_s(events: Iterable[Event[LinkMeasured]]) -> float:
    """Seconds for which the payloads of these reports were awaited, in all."""
    return sum(event.payload.timed_s for event in events)


def _without_one(events: Sequence[Event[LinkMeasured]]) -> tuple[float | None, float | None]:
    """The lowest and the highest rate if any one report is left out; None of fewer than two."""
    rates = [payload_rate([*events[:n], *events[n + 1 :]]) for n in range(len(events))]
    known = [rate for rate in rates if rate is not None] if len(events) > 1 else []
    return min(known, default=None), max(known, default=None)


# ---------------------------------------------------------------- streams that end


def closings(window: EvidenceWindow) -> list[Event[LinkClosed]]:
    """Streams of the target that were open and ended during the fault."""
    return [e for e in window.of(LinkClosed) if e.payload.was_open]


def unclaimed(window: EvidenceWindow) -> list[Event[LinkClosed]]:
    """The ends that another injection on the link, or its restart, does not explain."""
    breaking = {
        e.payload.injection
        for e in of([*window.before, *window.during], LinkShaped)
        if e.payload.effect in BREAKING
    } - {window.injection.id}
    changed_s = [
        *(e.time_s for e in window.of(LinkShaped) if e.payload.injection in breaking),
        *(e.time_s for e in window.of(LinkCleared) if e.payload.injection in breaking),
        *(e.time_s for e in window.of(LinkRemade)),
    ]
    return [
        e
        for e in closings(window)
        if not any(-LAG_S <= e.time_s - time_s <= 2 * LAG_S for time_s in changed_s)
    ]


def failed_attempts(window: EvidenceWindow) -> list[Event[LinkClosed]]:
    """Dials of the target during the fault that were not answered."""
    return [e for e in window.of(LinkClosed) if not e.payload.was_open]


def openings(window: EvidenceWindow) -> list[Event[LinkOpened]]:
    """Streams of the target that began during the fault."""
    return window.of(LinkOpened)


def was_open(window: EvidenceWindow) -> bool:
    """Whether the target had a stream when the fault began."""
    kinds = (Kind.LINK_OPENED, Kind.LINK_CLOSED)
    last = next((e.kind for e in reversed(window.before) if e.kind in kinds), None)
    return last is Kind.LINK_OPENED


# ---------------------------------------------------------------- use


def if_used(window: EvidenceWindow, found: Found, *, breaks_streams: bool) -> Found:
    """The same; weak if it is proved on a script's link over which nothing was to go meanwhile.

    Round trips go by such a link at any time. `breaks_streams`: an open connection counts as use.
    """
    before, during = reports(window.before), reports(window.during)
    given_s = max(
        (e.time_s - s for e in [*before, *during] if (s := e.payload.unused_s) is not None),
        default=math.inf,
    )
    was_open = any(e.payload.connections for e in before[-len(Direction.BOTH.ways) :])
    is_used = given_s >= window.begin_s - _IN_FLIGHT_S or (breaks_streams and was_open)
    if is_used or found.code.status is not Status.PROVED:
        return found
    unused_s = window.end_s - given_s
    text = f"{found.text}, but its link was given nothing to carry for the last {elapsed(unused_s)}"
    measured = {**found.measured, "unused_s": unused_s}
    return replace(found, code=Code.NOT_USED, text=text, measured=measured)


# ---------------------------------------------------------------- reports


def reports(events: Iterable[Event], way: Direction | None = None) -> list[Event[LinkMeasured]]:
    """The link.measured among events: of one direction, or of both."""
    return [e for e in of(events, LinkMeasured) if way in (None, Direction(e.payload.direction))]


def worst(found: Sequence[Found]) -> Found:
    """One finding out of several about one target: the worst status, all measurements."""
    first = min(found, key=lambda one: _WORST_FIRST.index((one.code.status, one.code.idle)))
    return Found(
        code=first.code,
        text=" and ".join(one.text for one in found if one.code.status is first.code.status),
        measured={key: value for one in found for key, value in one.measured.items()},
        proof=tuple(event for one in found for event in one.proof),
    )


_WORST_FIRST = (
    (Status.FAILED, None),
    (Status.FAILED, IdlePeriod.THROUGHOUT),
    (Status.FAILED, IdlePeriod.AT_START),
    (Status.WEAK, None),
    (Status.PROVED, None),
)


def whole(
    window: EvidenceWindow, events: Iterable[Event[LinkMeasured]]
) -> list[Event[LinkMeasured]]:
    """Reports on windows that began once the fault was upon all its targets: before that, an effect
    is on the way to each link, and what passes meanwhile is as fast as ever.
    """
    return [e for e in events if e.time_s - e.payload.window_s >= window.injected_s]


def lasted_s(window: EvidenceWindow) -> float:
    """Duration until now."""
    return window.end_s - window.begin_s


def is_soon(window: EvidenceWindow, event: Event, after_s: float = 0.0) -> bool:
    """Whether an event came within twice `LAG_S` of the injection, or of `after_s` after it."""
    return 0.0 <= event.time_s - (window.begin_s + after_s) <= 2 * LAG_S
