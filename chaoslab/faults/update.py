"""Faults on what a learner pushes: nan, scaled, stale, duplicate.

    learner ── honest push ──► its test hook ── spoilt ══► syncer ─► refused, or bounded
       says what was done to which push ──┘                  └─ says what it made of it: evidence

The learner itself trains on undisturbed. What proves a fault is the syncer's own record of the very
pushes that were spoilt; that it refuses or bounds them is its merit, that they arrived is the fact.
A victim is not taken away: it steps, and takes part again with the first push after the heal, which
`recovery` watches.
"""

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import ClassVar, TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import (
    LearnerPushed,
    PushAccepted,
    PushBounded,
    PushRefusal,
    PushRejected,
    RoundMerged,
    UpdateTampered,
)
from chaoslab.core.units import plural
from chaoslab.faults.actions import AsksHook
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of

_SHARE = 0.7
"""Of the spoilt pushes, so many are seen at the syncer; the last may still be on the way."""
_CALM_PUSHES = 5
"""So many accepted pushes of a fragment before the fault say how large they usually are."""
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


class _Spoils(AsksHook):
    """A fault on every push of a learner."""

    __slots__ = ()

    kind: ClassVar[str]
    """What is done to a push, as the hook calls it."""

    hook = "updates"

    def asked(self) -> Mapping[str, Json]:
        return {"kind": self.kind}

    def look(self, window: EvidenceWindow) -> Found:
        """What the syncer made of the pushes that the hook spoilt, by the hook's own word."""
        spoilt = frozenset(map(_push, window.of(UpdateTampered)))
        if not spoilt:
            text = "pushed nothing that its hook could have spoilt while the fault was on"
            has_pushed = window.first(LearnerPushed) is not None
            return no_evidence(Code.NOT_APPLIED if has_pushed else Code.NO_PUSH, text)
        return self.look_at_pushes(window, spoilt)

    @abstractmethod
    def look_at_pushes(self, window: EvidenceWindow, spoilt: frozenset[_Push]) -> Found:
        """What the syncer made of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNan(_Spoils):
    """One value of every outer gradient that the victim pushes becomes NaN."""

    name = "update.nan"
    summary = "every update of the victim carries a NaN"
    imitates = "silent data corruption or divergence, as it shows in an update"
    proof = "the syncer's record of the pushes that the victim's hook spoilt"
    kind = "nan"

    def look_at_pushes(self, window: EvidenceWindow, spoilt: frozenset[_Push]) -> Found:
        """Refused as not finite, or taken with a norm that is none."""

        def is_nonsense(event: Event[PushAccepted]) -> bool:
            return event.payload.norm is not None and not math.isfinite(event.payload.norm)

        return _answered(window, spoilt, "{} with a NaN", is_nonsense, PushRefusal.NOT_FINITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateScaled(_Spoils):
    """Every outer gradient that the victim pushes is multiplied, under an honest header."""

    factor: float = 1000.0
    """How many times as large; below 0 it also points the other way, as one with a flipped sign."""

    name = "update.scaled"
    summary = "every update of the victim is multiplied: too large, too small or turned round"
    strength: ClassVar[Mapping[str, float]] = {"factor": 1.0}
    imitates = "a wrong learning rate, corruption or malice, as it shows in an update's size"
    proof = "norms of the victim's pushes at the syncer, against those before; of a factor below 0 \
also their cosines with its peers' updates"
    kind = "scaled"

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor) or self.factor in (0.0, 1.0):
            raise PlanError(f"`factor: {self.factor:g}` scales nothing: use 1000, 0.001 or -1")

    def asked(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "factor": self.factor}

    def requested(self) -> Mapping[str, Json]:
        return {"factor": self.factor}

    def look_at_pushes(self, window: EvidenceWindow, spoilt: frozenset[_Push]) -> Found:
        """By how much its pushes grew, as the syncer measured them, and whether they turned."""
        taken = [e for e in window.of(PushAccepted) if _push(e) in spoilt]
        refused = [e for e in _rejections(window, _BEYOND_MEASURE) if _push(e) in spoilt]
        growths = _growths(window, taken)
        turned = _is_turned(window, spoilt)
        bounded = [e for e in window.of(PushBounded) if _push(e) in spoilt]
        measured: dict[str, Json] = {
            "factor": (-median(growths) if turned else median(growths)) if growths else None,
            "spoilt": len(spoilt),
            "bounded": len(bounded),
            "refused": len(refused),
        }
        if not growths and not refused:
            text = "sent nothing larger than before, as far as the syncer says"
            return no_evidence(Code.NO_EFFECT, text, **measured)
        if self.factor == -1.0 and turned is None and not refused:
            text = "was turned round or not: no cosine of its updates with its peers' is on record"
            return no_evidence(Code.NOT_MEASURED, text, **measured)
        is_near = not growths or _is_about(self.factor, median(growths), turned=turned)
        return Found(
            code=Code.AS_ASKED if is_near else Code.OUT_OF_TOLERANCE,
            text=f"{_grew(growths, turned=turned)}; of "
            f"{plural(len(spoilt), 'such update')} the syncer shortened "
            f"{len(bounded)} and refused {len(refused)}",
            measured=measured,
            proof=(
                *taken[:1], *bounded[:1], *refused[:1],
                *(_merged(window, spoilt)[:1] if turned else ()),
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStale(_Spoils):
    """Every pull is answered with an earlier push: old values, old counters, old base version.

    The first push of each fragment is the one that is then repeated.
    """

    name = "update.stale"
    summary = "the victim repeats an old update in place of every new one"
    imitates = "a learner that sends what it computed long ago"
    proof = "the syncer's record of the pushes that the victim's hook replaced"
    kind = "stale"

    def look_at_pushes(self, window: EvidenceWindow, spoilt: frozenset[_Push]) -> Found:
        """Refused for their base version, or taken with one that is not the round's."""
        current = {_push(e): e.payload.base_version for e in window.of(LearnerPushed)}

        def is_old(event: Event[PushAccepted]) -> bool:
            return event.payload.base_version < current.get(_push(event), -1)

        return _answered(window, spoilt, "{} that it had pushed before", is_old, PushRefusal.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDuplicate(_Spoils):
    """Every push is sent twice."""

    name = "update.duplicate"
    summary = "every update of the victim arrives twice"
    imitates = "a retry that arrives twice"
    proof = "two answers of the syncer to each push that the victim's hook doubled"
    kind = "duplicate"

    def look_at_pushes(self, window: EvidenceWindow, spoilt: frozenset[_Push]) -> Found:
        """One is taken and one refused, if the syncer counts right."""
        once: set[_Push] = set()

        def is_second(event: Event[PushAccepted]) -> bool:
            """Accepted once more; the first answer to a push is none of the duplicate's."""
            is_known = _push(event) in once
            once.add(_push(event))
            return is_known

        answers = [*map(_push, window.of(PushAccepted)), *map(_push, window.of(PushRejected))]
        twice = frozenset(push for push, count in Counter(answers).items() if count > 1)
        reasons = (PushRefusal.REPLAY, PushRefusal.LATE)
        return _answered(window, spoilt, "{} twice", is_second, *reasons, among=twice)


# ---------------------------------------------------------------- evidence


def _push(event: Event[_Sent]) -> _Push:
    return event.payload.round, event.payload.fragment


def _rejections(
    window: EvidenceWindow, reasons: Collection[PushRefusal]
) -> list[Event[PushRejected]]:
    return [e for e in window.of(PushRejected) if e.payload.reason in reasons]


def _answered(
    window: EvidenceWindow,
    spoilt: frozenset[_Push],
    what: str,
    is_taken: Callable[[Event[PushAccepted]], bool],
    *reasons: PushRefusal,
    among: frozenset[_Push] | None = None,
) -> Found:
    """How many of the spoilt pushes the syncer saw as what they are: refused so, or taken so.

    `among`: only these can have been.
    """
    pushed = what.format(plural(len(spoilt), "update"))
    candidates = spoilt if among is None else spoilt & among
    refused = [e for e in _rejections(window, reasons) if _push(e) in candidates]
    taken = [e for e in window.of(PushAccepted) if is_taken(e) and _push(e) in candidates]
    seen = {*map(_push, refused), *map(_push, taken)}
    measured: dict[str, Json] = {
        "spoilt": len(spoilt), "refused": len(refused), "taken": len(taken)
    }  # fmt: skip
    if not seen:
        text = f"pushed {pushed}, and the syncer saw none of them as such"
        return no_evidence(Code.NO_EFFECT, text, **measured)
    is_whole = len(seen) >= _SHARE * len(spoilt) - 1
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


def _is_turned(window: EvidenceWindow, spoilt: frozenset[_Push]) -> bool | None:
    """Whether its spoilt updates point away from its peers' as those before had pointed along.

    None where the record shows no directions, or the updates had none in common before.
    """
    calm = frozenset(map(_push, of(window.calm, PushAccepted)))
    before, during = _cosines(window, calm), _cosines(window, spoilt)
    if not before or not during or fmean(before) <= 0:
        return None
    return fmean(during) < -_TURNED * fmean(before)


def _cosines(window: EvidenceWindow, pushes: frozenset[_Push]) -> list[float]:
    """Of these pushes of the target with the others of their rounds, as the syncer merged them."""
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
