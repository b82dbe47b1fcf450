"""Findings of a check: violations make a FAIL, too few samples an UNKNOWN.

    the check ─► [Violation or Doubt, …] ─► conclude ─► Finding, the first violation first
                 the worst that it measured ──┘

A check that looks for violations collects all of them; `conclude` orders them as they happened,
names each culprit once and puts the first of each into the sentence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.core.events import Event, Json
from chaoslab.core.units import delay, elapsed

_EVIDENCE_SHOWN = 20
_SENTENCES_SHOWN = 3
_SOME_TIME_S = 0.05


class Counted(NamedTuple):
    """Count beside the bound of a check: a number, and out of how many."""

    observed: float
    bound: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation: the sentence, the event that shows it, and the culprit."""

    code: StrEnum
    """A `Code`, or one of a check from outside."""
    seq: int
    text: str
    culprit: str = ""
    counted: Counted | None = None
    """Count, if it is not that of the check's bound; else None."""

    @classmethod
    def at(
        cls,
        event: Event,
        code: StrEnum,
        text: str,
        culprit: str | None = None,
        counted: Counted | None = None,
    ) -> Self:
        """Violation shown by an event; its source is the culprit, unless another one is named."""
        culprit = event.source if culprit is None else culprit
        return cls(code=code, seq=event.seq, text=text, culprit=culprit, counted=counted)


class Doubt(NamedTuple):
    """Something that is missing, so that a check cannot tell."""

    code: StrEnum
    text: str


class Measured(NamedTuple):
    """The worst value of what a check bounds from above."""

    worst: float
    bound: float
    unit: str
    """A `Unit`, or another text."""
    digits: int = 3
    """Digits to which the finding rounds."""
    best: float = 0.0
    """Value in a run without a fault."""


_NOTHING = Doubt(Code.NOTHING_TO_JUDGE, "the record holds nothing to judge")


def conclude(
    check: str,
    found: Iterable[Violation | Doubt | None],
    *,
    passed: str,
    samples: int,
    nothing: Doubt = _NOTHING,
    measured: Measured | None = None,
    numbers: Mapping[str, Json] | None = None,
) -> Finding:
    """FAIL with any violation, else UNKNOWN with any doubt, else PASS.

    `nothing`: the doubt if there are no samples and no other doubts. Without `measured`, and if
    something else was violated than its bound, what the first violation counted is observed, or the
    number of violations, where 0 are allowed. There is no margin then.
    """
    found = [one for one in found if one is not None]
    ordered = sorted((v for v in found if isinstance(v, Violation)), key=lambda one: one.seq)
    doubts = [one for one in found if isinstance(one, Doubt)]
    if not samples:
        doubts = doubts or [nothing]
    if ordered:
        outcome, reason = Outcome.FAIL, _all(ordered)
    elif doubts:
        outcome, reason = Outcome.UNKNOWN, "; ".join(doubt.text for doubt in doubts)
    else:
        outcome, reason = Outcome.PASS, passed
    codes = [one.code for one in ordered] or [doubt.code for doubt in doubts]
    broke_otherwise = bool(ordered) and (measured is None or measured.worst <= measured.bound)
    known = next((one.counted for one in ordered if one.counted), None)
    observed, bound, unit = known or Counted(len(ordered), 0, Unit.VIOLATIONS)
    margin = best = None
    if measured and not broke_otherwise:
        observed, bound = round(measured.worst, measured.digits), measured.bound
        unit, best = measured.unit, measured.best
        margin = margin_below(measured.worst, bound, best)
    return Finding(
        check=check,
        outcome=outcome,
        reason=reason,
        codes=tuple(dict.fromkeys(codes)),
        observed=None if outcome is Outcome.UNKNOWN and measured is None else observed,
        bound=bound,
        margin=margin,
        samples=samples,
        culprits=tuple(dict.fromkeys(v.culprit for v in ordered if v.culprit)),
        evidence=tuple(v.seq for v in ordered[:_EVIDENCE_SHOWN]),
        numbers=numbers or {},
        unit=unit,
        best=best,
    )


def unknown(
    check: str,
    code: StrEnum,
    reason: str,
    *,
    samples: int = 0,
    numbers: Mapping[str, Json] | None = None,
    culprits: Sequence[str] = (),
    evidence: Iterable[Event] = (),
) -> Finding:
    """UNKNOWN finding; `code` and `reason` say what was missing."""
    return Finding(
        check=check,
        outcome=Outcome.UNKNOWN,
        reason=reason,
        codes=(code,),
        samples=samples,
        numbers=numbers or {},
        culprits=tuple(culprits),
        evidence=tuple(event.seq for event in evidence),
    )


def margin_below(observed: float, bound: float, best: float = 0.0) -> float | None:
    """The margin of a finding with an upper bound: the share of the attainable distance to it that
    is left, 1 at what an undisturbed run would show (`best`), 0 at the bound, negative beyond it.

    None if the bound is the best value itself: every run is at it, and none is near it.
    """
    return (bound - observed) / abs(bound - best) if bound != best else None


def margin_above(observed: float, bound: float, best: float) -> float | None:
    """The margin of a finding with a lower bound, as `margin_below`."""
    return margin_below(-observed, -bound, -best)


def after_longest(delays_s: Sequence[float]) -> str:
    """Duration as the end of a sentence: `at once`, `after at most 2.5 s`."""
    said = "after at most {}" if len(delays_s) > 1 else "after {}"
    return delay(max(delays_s, default=0.0), said)


def time_left(seconds: float) -> str:
    """Rest of a run, as the beginning of a sentence about what had no time in it."""
    return f"only {elapsed(seconds)} were left" if seconds >= _SOME_TIME_S else "no time was left"


def _all(violations: Sequence[Violation]) -> str:
    """The first sentence of each culprit, a few of them, and how many more there are."""
    firsts = {violation.culprit: violation.text for violation in reversed(violations)}
    order = dict.fromkeys(violation.culprit for violation in violations)
    said = said_once((culprit, firsts[culprit]) for culprit in order)
    shown = list(said.items())[:_SENTENCES_SHOWN]
    more = len(violations) - sum(number for _, number in shown)
    return "; ".join(text for text, _ in shown) + (f" (and {more} more)" if more else "")


def said_once(sentences: Iterable[tuple[str, str]]) -> Mapping[str, int]:
    """Sentences about names, each as a pair (name, sentence): what is the same of several is said
    once. For each sentence the number of its names: `a, b each exited`.
    """
    names: dict[str, list[str]] = {}
    for name, sentence in sentences:
        text = sentence.removeprefix(f"{name} ") if name else sentence
        names.setdefault(text, []).append(name if text != sentence else "")
    said: dict[str, int] = {}
    for text, found in names.items():
        known = [name for name in found if name]
        subject = f"{', '.join(known)} {'each ' if known[1:] else ''}" if known else ""
        said[f"{subject}{text}"] = len(found)
    return said
