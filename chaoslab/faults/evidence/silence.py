"""Evidence of silence on a link from its two ends, with the fault that caused it.

    before: it carried traffic, no other fault had silenced it ─┐
    during: nothing arrives any more, to the end               ─┼─► Found
    no other fault came and silenced it at the same time       ─┘

Silence looks alike, whatever made it. So a link that was silent already proves nothing, and of two
faults that silence one link only the one that found it alive is proved.
"""

from collections.abc import Sequence

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LinkCleared, LinkMeasured, LinkShaped
from chaoslab.core.units import elapsed
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.links import FRESH_S, lasted_s, reports, worst
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence
from chaoslab.links.effects import Blackhole, Direction, Freeze, Refuse

_JUST_S = 1.5
"""A link that heard something within this time was carrying traffic right then: 4 pings a second
and their answers travel each way, and a busy machine delays some."""
_APART_S = 1.0
"""Two faults that silence one link cannot be told apart if they come closer together than this."""
_WHOLE_S = 0.1
"""A fault that was silent but for this much was silent all the time."""
_SILENCING = frozenset(effect.kind for effect in (Freeze, Blackhole, Refuse))
"""Effects under which nothing arrives."""


def look_silent(window: EvidenceWindow, direction: Direction) -> Found:
    """Whether nothing arrived, in each direction, until the end of the fault."""
    return worst([_look_for_silence(window, way) for way in direction.ways])


def _look_for_silence(window: EvidenceWindow, way: Direction) -> Found:
    before, during = reports(window.before, way), reports(window.during, way)
    if rival := _silenced_before(window, way):
        text = f"was already silenced {way} by {rival} when the fault began"
        return no_evidence(Code.SILENCED_BEFORE, text)
    if not before or before[-1].payload.silent_s > FRESH_S:
        text = f"had carried no traffic {way} when the fault began"
        return no_evidence(Code.NO_TRAFFIC_BEFORE, text)
    quiet_s = window.begin_s - _last_heard_s([*before, *during[:1]])
    if quiet_s > _JUST_S:
        text = f"had carried no traffic {way} for {quiet_s:.1f} s when the fault began"
        return no_evidence(Code.NO_TRAFFIC_BEFORE, text)
    if not during or window.end_s - during[-1].time_s > FRESH_S:
        return no_evidence(Code.NO_LINK_REPORT, f"had no link report {way} during the fault")
    since_s = max(_last_heard_s([*before, *during]), window.begin_s)
    silent_s = window.end_s - since_s
    measured: dict[str, Json] = {f"{way}_silent_s": silent_s}
    text = f"got nothing {way} for {_span(silent_s, lasted_s(window))}"
    if silent_s < FRESH_S and silent_s < lasted_s(window) / 2:
        return no_evidence(Code.NO_EFFECT, f"{text}: bytes went on arriving", **measured)
    if rival := _silenced_by(window, way, since_s + _APART_S):
        text = f"{text}: not before {rival} silenced it, too"
        return no_evidence(Code.OTHER_FAULT, text, **measured)
    return Found(
        code=window.lasted(silent_s), text=text, measured=measured, proof=(before[-1], during[-1])
    )


def _span(silent_s: float, lasted_s: float) -> str:
    """Silent part of a fault's time, which is always the end of it."""
    if lasted_s - silent_s < _WHOLE_S:
        return f"all of its {elapsed(lasted_s)}"
    return f"the last {elapsed(silent_s)} of {elapsed(lasted_s)}"


def _silenced_before(window: EvidenceWindow, way: Direction) -> str | None:
    """Which other injection kept that way silent when this one's effect came.

    Links report what was put on them in its order, but later than the faults report themselves: of
    two injections in one moment the first one's report may follow after the second one began.
    """
    cut = _own_effect(window)
    silencing: dict[str, None] = {}
    for event in [*window.before, *window.during]:
        if cut is None and event.time_s > window.begin_s:
            break
        if cut is not None and event.seq >= cut.seq:
            break
        said = event.payload
        if isinstance(said, LinkCleared):
            silencing.pop(said.injection, None)
        elif isinstance(said, LinkShaped) and _silences(window, said, way):
            silencing[said.injection] = None
    return next(iter(silencing), None)


def _silenced_by(window: EvidenceWindow, way: Direction, until_s: float) -> str | None:
    """Other injection that silenced that way during this one, before that moment."""
    cut = _own_effect(window)
    after = cut.seq if cut is not None else -1
    late = (e.payload for e in window.of(LinkShaped) if e.seq > after and e.time_s < until_s)
    return next((said.injection for said in late if _silences(window, said, way)), None)


def _silences(window: EvidenceWindow, shaped: LinkShaped, way: Direction) -> bool:
    return (
        shaped.injection != window.injection.id
        and shaped.effect in _SILENCING
        and way in Direction(shaped.direction).ways
    )


def _own_effect(window: EvidenceWindow) -> Event[LinkShaped] | None:
    """First report of the link about this injection."""
    return window.first(LinkShaped, lambda e: e.payload.injection == window.injection.id)


def _last_heard_s(seen: Sequence[Event[LinkMeasured]]) -> float:
    """Time of the last bytes, by the first report with the final count."""
    total = seen[-1].payload.bytes
    first = next(e for e in seen if e.payload.bytes == total)
    return first.time_s - first.payload.silent_s
