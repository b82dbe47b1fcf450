"""Fault on what a learner pushes, by one of four kinds of tampering.

    learner ── honest push ──► its test hook ── tampered ══► syncer ─► refused, or bounded
       says what was done to which push ──┘                  └─ says what it made of it: evidence

The learner itself trains on undisturbed. What proves a fault is the syncer's own record of the very
pushes that were tampered with: whether it refuses or bounds them is for checks.
A victim is not taken away: it steps, and takes part again with the first push after the heal, which
`recovery` watches.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import ClassVar, Self, TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerPushed,
    PushAccepted,
    PushBounded,
    PushRejected,
    RoundMerged,
    UpdateTampered,
)
from chaoslab.core.protocol import Corruption, PushRefusal
from chaoslab.core.units import plural
from chaoslab.faults.actions import AsksHook
from chaoslab.faults.base import HasStrength
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of

_SHARE = 0.7
"""Least share of the tampered pushes at the syncer; the last may still be on the way."""
_CALM_PUSHES = 5
"""This many accepted pushes of a fragment before the fault say how large they usually are."""
_TURNED = 0.3
"""Updates are turned round if their mean cosine is below minus this share of the one before."""
_TOLERANCE = 2.0
"""A measured factor within this factor of the one asked proves it."""

_BEYOND_MEASURE = (PushRefusal.MALFORMED, PushRefusal.NOT_FINITE)
"""Reasons to refuse an update whose values are too large for its encoding."""

_Sent: TypeAlias = (
    LearnerPushed | PushAccepted | PushBounded | PushRejected | RoundMerged | UpdateTampered
)
_Push: TypeAlias = tuple[int, int]
"""(round, fragment)"""


_TAKEN_FACTOR = 1e6
"""The syncer refuses values that are too large to be any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTamper(AsksHook):
    """Spoil every outer gradient that the victim pushes, under an honest header."""

    how: Corruption = Corruption.NAN
    """nan: one value becomes NaN; scaled: all are multiplied by `factor`; stale: an earlier push is
    sent again with its old counters; duplicate: each push is sent twice."""
    factor: float = 1000.0
    """Factor with `how: scaled`; below 0 the update also points the other way, as with a flipped
    sign."""

    name = "update.tamper"
    summary = "every update of the victim carries a NaN, is scaled or turned round, old, or doubled"
    strength: ClassVar[Mapping[str, float]] = {"factor": 1.0}
    hook = "updates"
    imitates = "silent data corruption, divergence, a wrong learning rate, malice, or a retry"
    proof = (
        "the syncer's record of the very pushes that the victim's hook tampered with: refusals, \
norms, of a factor below 0 also their cosines with its peers' updates"
    )

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor) or self.factor in (0.0, 1.0):
            raise PlanError(f"`factor: {self.factor:g}` scales nothing: use 1000, 0.001 or -1")

    @property
    def may_silence(self) -> bool:
        """Not if its pushes are taken: once of two, and shortened where they are too large."""
        is_taken = self.how is Corruption.SCALED and abs(self.factor) <= _TAKEN_FACTOR
        return not (is_taken or self.how is Corruption.DUPLICATE)

    def milder(self) -> Iterator[Self]:
        """With a smaller factor, where there is one."""
        return HasStrength.milder(self) if self.how is Corruption.SCALED else iter(())

    def asked(self) -> Mapping[str, Json]:
        factor: dict[str, Json] = {"factor": self.factor} if self.how is Corruption.SCALED else {}
        return {"kind": self.how.value, **factor}

    def look(self, window: EvidenceWindow) -> Found:
        """Answers of the syncer to the pushes that the hook reported as tampered with."""
        tampered = frozenset(map(_push, window.of(UpdateTampered)))
        if not tampered:
            text = "pushed nothing that its hook could have tampered with while the fault was on"
            has_pushed = window.first(LearnerPushed) is not None
            return no_evidence(Code.NOT_APPLIED if has_pushed else Code.NO_PUSH, text)
        match self.how:
            case Corruption.NAN:
                return _look_nan(window, tampered)
            case Corruption.SCALED:
                return _look_scaled(window, tampered, self.factor)
            case Corruption.STALE:
                return _look_stale(window, tampered)
            case Corruption.DUPLICATE:
                return _look_doubled(window, tampered)


# ---------------------------------------------------------------- evidence


def _look_nan(window: EvidenceWindow, tampered: frozenset[_Push]) -> Found:
    """Whether it was refused as not finite, or accepted with a norm that is not finite."""

    def is_nonsense(event: Event[PushAccepted]) -> bool:
        return event.payload.norm is not None and not math.isfinite(event.payload.norm)

    return _answered(window, tampered, "{} with a NaN", is_nonsense, PushRefusal.NOT_FINITE)


def _look_scaled(window: EvidenceWindow, tampered: frozenset[_Push], factor: float) -> Found:
    """Growth of its pushes, as the syncer measured them, and whether they turned."""
    taken = [e for e in window.of(PushAccepted) if _push(e) in tampered]
    refused = [e for e in _rejections(window, _BEYOND_MEASURE) if _push(e) in tampered]
    growths = _growths(window, taken)
    turned = _is_turned(window, tampered)
    bounded = [e for e in window.of(PushBounded) if _push(e) in tampered]
    measured: dict[str, Json] = {
        "factor": (-median(growths) if turned else median(growths)) if growths else None,
        "tampered": len(tampered),
        "bounded": len(bounded),
        "refused": len(refused),
    }
    if not growths and not refused:
        text = "sent nothing larger than before, as far as the syncer says"
        return no_evidence(Code.NO_EFFECT, text, **measured)
    if factor == -1.0 and turned is None and not refused:
        text = "was turned round or not: no cosine of its updates with its peers' is on record"
        return no_evidence(Code.NOT_MEASURED, text, **measured)
    is_near = not growths or _is_about(factor, median(growths), turned=turned)
    return Found(
        code=Code.AS_ASKED if is_near else Code.OUT_OF_TOLERANCE,
        text=f"{_grew(growths, turned=turned)}; of "
        f"{plural(len(tampered), 'such update')} the syncer shortened "
        f"{len(bounded)} and refused {len(refused)}",
        measured=measured,
        proof=(
            *taken[:1], *bounded[:1], *refused[:1],
            *(_merged(window, tampered)[:1] if turned else ()),
        ),
    )  # fmt: skip


def _look_stale(window: EvidenceWindow, tampered: frozenset[_Push]) -> Found:
    """Refused for their base version, or taken with one that is not the round's."""
    current = {_push(e): e.payload.base_version for e in window.of(LearnerPushed)}

    def is_old(event: Event[PushAccepted]) -> bool:
        return event.payload.base_version < current.get(_push(event), -1)

    return _answered(window, tampered, "{} that it had pushed before", is_old, PushRefusal.STALE)


def _look_doubled(window: EvidenceWindow, tampered: frozenset[_Push]) -> Found:
    """Whether one is accepted and one refused."""
    once: set[_Push] = set()

    def is_second(event: Event[PushAccepted]) -> bool:
        """Whether it is accepted once more; the answer to the original is not the duplicate's."""
        is_known = _push(event) in once
        once.add(_push(event))
        return is_known

    answers = [*map(_push, window.of(PushAccepted)), *map(_push, window.of(PushRejected))]
    twice = frozenset(push for push, count in Counter(answers).items() if count > 1)
    reasons = (PushRefusal.REPLAY, PushRefusal.LATE)
    return _answered(window, tampered, "{} twice", is_second, *reasons, among=twice)


def _push(event: Event[_Sent]) -> _Push:
    return event.payload.round, event.payload.fragment


def _rejections(
    window: EvidenceWindow, reasons: Collection[PushRefusal]
) -> list[Event[PushRejected]]:
    return [e for e in window.of(PushRejected) if e.payload.reason in reasons]


def _answered(
    window: EvidenceWindow,
    tampered: frozenset[_Push],
    what: str,
    is_taken: Callable[[Event[PushAccepted]], bool],
    *reasons: PushRefusal,
    among: frozenset[_Push] | None = None,
) -> Found:
    """Number of the tampered pushes that the syncer identified: refused so, or accepted so.

    `among`: only these can have been.
    """
    pushed = what.format(plural(len(tampered), "update"))
    candidates = tampered if among is None else tampered & among
    refused = [e for e in _rejections(window, reasons) if _push(e) in candidates]
    taken = [e for e in window.of(PushAccepted) if is_taken(e) and _push(e) in candidates]
    seen = {*map(_push, refused), *map(_push, taken)}
    measured: dict[str, Json] = {
        "tampered": len(tampered), "refused": len(refused), "taken": len(taken)
    }  # fmt: skip
    if not seen:
        text = f"pushed {pushed}, and the syncer saw none of them as such"
        return no_evidence(Code.NO_EFFECT, text, **measured)
    is_whole = len(seen) >= _SHARE * len(tampered) - 1
    return Found(
        code=Code.AS_ASKED if is_whole else Code.NOT_THROUGHOUT,
        text=f"pushed {pushed}; the syncer refused {len(refused)} as "
        f"{' or '.join(sorted({e.payload.reason for e in refused})) or 'such'} and took "
        f"{len(taken)}",
        measured=measured,
        proof=(*refused[:1], *taken[:1]),
    )


def _growths(window: EvidenceWindow, taken: Sequence[Event[PushAccepted]]) -> list[float]:
    """The norm / √steps of each push against what it was for the same fragment before the fault."""
    before: dict[int, list[float]] = {}
    for event in of(window.calm, PushAccepted):
        if event.payload.norm:
            before.setdefault(event.payload.fragment, []).append(_of_a_step(event))
    return [
        _of_a_step(event) / median(usual[-_CALM_PUSHES:])
        for event in taken
        if (usual := before.get(event.payload.fragment))
    ]


def _is_turned(window: EvidenceWindow, tampered: frozenset[_Push]) -> bool | None:
    """Whether its tampered updates point away from its peers' as those before had pointed along.

    None where the record shows no directions, or the updates had none in common before.
    """
    calm = frozenset(map(_push, of(window.calm, PushAccepted)))
    before, during = _cosines(window, calm), _cosines(window, tampered)
    if not before or not during or fmean(before) <= 0:
        return None
    return fmean(during) < -_TURNED * fmean(before)


def _cosines(window: EvidenceWindow, pushes: frozenset[_Push]) -> list[float]:
    """Cosines of these pushes with the others of their rounds, as the syncer merged them."""
    return [
        one.cosine
        for merged in _merged(window, pushes)
        for one in merged.payload.contributors
        if one.learner == window.target and one.cosine is not None
    ]


def _merged(window: EvidenceWindow, pushes: frozenset[_Push]) -> list[Event[RoundMerged]]:
    return [merged for merged in window.history.of(RoundMerged) if _push(merged) in pushes]


def _is_about(asked: float, grown: float, *, turned: bool | None) -> bool:
    """Within the tolerance, turned if it was asked, and nearer to that than to no change at all."""
    size = abs(asked)
    if turned is not None and turned != (asked < 0):
        return False
    if not size / _TOLERANCE <= grown <= size * _TOLERANCE:
        return False
    return bool(turned) or abs(math.log(grown / size)) < abs(math.log(grown))


def _of_a_step(event: Event[PushAccepted]) -> float:
    return (event.payload.norm or 0.0) / math.sqrt(max(1, event.payload.c_steps))


def _grew(growths: Sequence[float], *, turned: bool | None) -> str:
    if not growths:
        return "pushed updates beyond all measure"
    text = f"pushed updates {median(growths):.4g} times as large as before"
    return f"{text}, and turned round" if turned else text
