"""How a check says what it found: violations make a FAIL, too few samples an UNKNOWN.

    the check ─► [Violation, …] ─► conclude ─► Finding, the first violation first

A check that looks for violations collects all of them; `conclude` orders them as they happened,
names each culprit once and puts the first of each into the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.core.events import Json

_EVIDENCE_SHOWN = 20
_SENTENCES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not happen, where the journal shows it, and whose doing it was."""

    code: StrEnum
    """A `Code`, or one of a check from outside."""
    seq: int
    text: str
    culprit: str = ""


class Doubt(NamedTuple):
    """Something that is missing, so that a check cannot tell."""

    code: StrEnum
    text: str


_NOTHING = Doubt(Code.NOTHING_TO_JUDGE, "the record holds nothing to judge")


def conclude(
    check: str,
    violations: Sequence[Violation],
    *,
    doubts: Sequence[Doubt] = (),
    passed: str,
    samples: int,
    numbers: Mapping[str, Json] | None = None,
) -> Finding:
    """FAIL with any violation, else UNKNOWN with any doubt, else PASS.

    Observed is the number of violations and the bound 0, so
    there is no margin.
    """
    ordered = sorted(violations, key=lambda violation: violation.seq)
    if not samples:
        doubts = doubts or [_NOTHING]
    if ordered:
        outcome, reason = Outcome.FAIL, _all(ordered)
    elif doubts:
        outcome, reason = Outcome.UNKNOWN, "; ".join(doubt.text for doubt in doubts)
    else:
        outcome, reason = Outcome.PASS, passed
    codes = [one.code for one in ordered] or [doubt.code for doubt in doubts]
    return Finding(
        check=check,
        outcome=outcome,
        reason=reason,
        codes=tuple(dict.fromkeys(codes)),
        observed=None if outcome is Outcome.UNKNOWN else len(ordered),
        bound=0,
        samples=samples,
        culprits=tuple(dict.fromkeys(v.culprit for v in ordered if v.culprit)),
        evidence=tuple(v.seq for v in ordered[:_EVIDENCE_SHOWN]),
        numbers=numbers or {},
    )


def unknown(
    check: str,
    code: StrEnum,
    reason: str,
    *,
    samples: int = 0,
    numbers: Mapping[str, Json] | None = None,
) -> Finding:
    """There was not enough to tell; `code` and `reason` say what was missing."""
    return Finding(
        check=check,
        outcome=Outcome.UNKNOWN,
        reason=reason,
        codes=(code,),
        samples=samples,
        numbers=numbers or {},
    )


def room_below(observed: float, bound: float) -> float | None:
    """Signed distance to an upper bound as a share of it; None for a bound of 0."""
    return (bound - observed) / bound if bound else None


def room_above(observed: float, bound: float) -> float | None:
    """Signed distance to a lower bound as a share of it; None for a bound of 0."""
    return (observed - bound) / bound if bound else None


def _all(violations: Sequence[Violation]) -> str:
    """The first sentence of each culprit, a few of them, and how many more there are."""
    firsts = {violation.culprit: violation.text for violation in reversed(violations)}
    order = dict.fromkeys(violation.culprit for violation in violations)
    shown = [firsts[culprit] for culprit in order][:_SENTENCES_SHOWN]
    more = len(violations) - len(shown)
    return "; ".join(shown) + (f" (and {more} more)" if more else "")
