"""How a check says what it found: violations make a FAIL, too few samples an UNKNOWN.

    the check ─► [Violation, …] ─► conclude ─► Finding, the first violation first

A check that looks for violations collects all of them; `conclude` orders them as they happened,
names each culprit once and puts the first of each into the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaoslab.checks.base import Finding, Outcome
from chaoslab.core.events import Json

_EVIDENCE_SHOWN = 20
_SENTENCES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not happen, where the journal shows it, and whose doing it was."""

    seq: int
    text: str
    culprit: str = ""


def conclude(
    check: str,
    violations: Sequence[Violation],
    *,
    doubt: str = "",
    passed: str,
    samples: int,
    numbers: Mapping[str, Json] | None = None,
) -> Finding:
    """FAIL with any violation, else UNKNOWN with any doubt, else PASS.

    `doubt` says what was missing to tell. Observed is the number of violations and the bound 0, so
    there is no margin.
    """
    ordered = sorted(violations, key=lambda violation: violation.seq)
    if ordered:
        outcome, reason = Outcome.FAIL, _all(ordered)
    elif doubt or not samples:
        outcome, reason = Outcome.UNKNOWN, doubt or "the record holds nothing to judge"
    else:
        outcome, reason = Outcome.PASS, passed
    return Finding(
        check=check,
        outcome=outcome,
        reason=reason,
        observed=None if outcome is Outcome.UNKNOWN else len(ordered),
        bound=0,
        samples=samples,
        culprits=tuple(dict.fromkeys(v.culprit for v in ordered if v.culprit)),
        evidence=tuple(v.seq for v in ordered[:_EVIDENCE_SHOWN]),
        numbers=numbers or {},
    )


def unknown(
    check: str, reason: str, *, samples: int = 0, numbers: Mapping[str, Json] | None = None
) -> Finding:
    """There was not enough to tell; `reason` says what was missing."""
    return Finding(
        check=check,
        outcome=Outcome.UNKNOWN,
        reason=reason,
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
