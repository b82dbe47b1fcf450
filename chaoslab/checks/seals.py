"""Seals of a game-day: are the faults that came those that were sealed before the baseline?

gameday.sealed ─┐ key on record, as the digest says
gameday.unsealed┴─► opened ──┬── the same fault, settings, targets, time ──► no doubt
fault.injecting, skipped ────┘   anything else, or no key ─────────────────► doubts
"""

from collections.abc import Iterator, Mapping

from chaoslab.checks.codes import Code
from chaoslab.checks.violations import Doubt
from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Event, Json, decode, encode
from chaoslab.core.payloads import (
    BaselineMeasured,
    FaultInjecting,
    FaultSkipped,
    GamedaySealed,
    PhaseEntered,
)
from chaoslab.core.units import elapsed, plural
from chaoslab.record.journal import History
from chaoslab.record.sealed import NotOpened, SealedFault, disclosed, opened

_INJECT = "inject"
_APART_S = 5.0
"""The harness may need so long from the beginning of the phase until its triggers count."""


def seal_doubts(history: History) -> Iterator[Doubt]:
    """What speaks against it, one sentence each; nothing for a run without sealed faults."""
    event = history.last(GamedaySealed)
    if event is None:
        return
    what = plural(event.payload.faults, "sealed fault")
    try:
        key = disclosed(history)
        if key is None:
            text = f"{what}: the key is not on record, so it is open whether those came"
            yield Doubt(Code.STILL_SEALED, text)
            return
        faults = opened(event.payload, key)
    except (NotOpened, AbilityError) as error:
        yield Doubt(Code.SEAL_BROKEN, f"{what}: {error}")
        return
    baseline = next(iter(history.of(BaselineMeasured)), None)
    if baseline is not None and baseline.seq < event.seq:
        yield Doubt(Code.SEAL_BROKEN, f"{what}: sealed after the baseline")
    for one in faults:
        yield from _otherwise(history, one)


def opened_faults(history: History) -> Mapping[str, SealedFault]:
    """Sealed faults by their ids; empty as long as they cannot be opened."""
    event = history.last(GamedaySealed)
    try:
        key = disclosed(history)
        faults = opened(event.payload, key) if event and key else ()
    except (NotOpened, AbilityError):
        return {}
    return {one.spec: one for one in faults}


def _otherwise(history: History, sealed: SealedFault) -> Iterator[Doubt]:
    """What became of one fault, if that is not what was sealed."""
    came = [e.payload for e in history.of(FaultInjecting) if _is_of(sealed, e)]
    left_out = [e.payload for e in history.of(FaultSkipped) if _is_of(sealed, e)]
    name = f"`{sealed.spec}`"
    if not came and not left_out:
        yield Doubt(Code.SEAL_BROKEN, f"{name} was sealed, and neither came nor was left out")
    for said in (*came, *left_out):
        if (said.fault, said.targets) != (sealed.fault, sealed.targets):
            text = (
                f"{name} was sealed as {sealed.fault} on {', '.join(sealed.targets)}, and was "
                f"{said.fault} on {', '.join(said.targets)}"
            )
            yield Doubt(Code.SEAL_BROKEN, text)
    for said in came:
        if _plain(said.settings) != _plain(sealed.settings) or said.for_s != sealed.for_s:
            text = f"{name} came with other settings than it was sealed with"
            yield Doubt(Code.SEAL_BROKEN, text)
        after_s = _after_s(history, said)
        if after_s is not None and abs(after_s - sealed.after_s) > _APART_S:
            text = (
                f"{name} was sealed for {elapsed(sealed.after_s)} after faults began, and came "
                f"{elapsed(after_s)} after"
            )
            yield Doubt(Code.SEAL_BROKEN, text)


def _is_of(sealed: SealedFault, event: Event[FaultInjecting] | Event[FaultSkipped]) -> bool:
    return event.payload.injection == sealed.injection


def _after_s(history: History, said: FaultInjecting) -> float | None:
    """When it was due, from the beginning of faults."""
    began = [event for event in history.of(PhaseEntered) if event.payload.phase == _INJECT]
    return said.asked_s - began[0].time_s if began and said.asked_s is not None else None


def _plain(settings: Mapping[str, Json]) -> Json:
    return decode(encode(settings))
