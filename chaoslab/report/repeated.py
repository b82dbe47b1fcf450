"""Several runs of one plan together: how often each finding was not PASS, and how sure that is.

    Verdict, Verdict, … ─► repeated ─► outcomes, one `Repeated` for each finding ─► page, JSON

A finding that a run does not list is one of the rules that speak only when they are not kept: it
counts as PASS there. Rates come with the 95 % interval of Wilson (1927) for a binomial share, which
is honest for few runs: no failure in 10 runs still allows a rate of 28 %.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.report.page import STYLES
from chaoslab.report.wording import OUTCOME_TONES, percent

_Z = 1.959964
"""Quantile of the standard normal distribution: 95 % lie within."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """One finding over all runs."""

    check: str
    runs: int
    failed: int
    unknown: int
    margins: tuple[float, ...]
    """Share of the bound that was left, for each run in which the finding has a margin."""

    @property
    def flake_rate(self) -> float:
        """Share of the runs in which it was not PASS."""
        return (self.failed + self.unknown) / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Between which two rates the true one lies, with 95 % confidence."""
        return wilson(self.failed + self.unknown, self.runs)


def repeated(verdicts: Sequence[Verdict]) -> tuple[Repeated, ...]:
    """Every finding of any run, in the order in which they first came."""
    by_name: dict[str, list[Finding]] = {}
    for verdict in verdicts:
        for name, finding in verdict.by_name.items():
            by_name.setdefault(name, []).append(finding)
    return tuple(
        Repeated(
            check=name,
            runs=len(verdicts),
            failed=sum(finding.outcome is Outcome.FAIL for finding in found),
            unknown=sum(finding.outcome is Outcome.UNKNOWN for finding in found),
            margins=tuple(finding.margin for finding in found if finding.margin is not None),
        )
        for name, found in by_name.items()
    )


def wilson(hits: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a binomial share."""
    rate, spread = hits / runs, _Z * _Z / runs
    middle = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) / runs + spread / (4 * runs)) * _Z / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def repeated_json(verdicts: Sequence[Verdict]) -> Mapping[str, Json]:
    """Outcomes, flake rates with intervals, and margins, for machines."""
    return {
        "runs": len(verdicts),
        "outcomes": _outcomes(verdicts),
        "flake_rate": _flaky(verdicts) / len(verdicts),
        "flake_interval": list(wilson(_flaky(verdicts), len(verdicts))),
        "findings": [
            {
                "check": one.check,
                "failed": one.failed,
                "unknown": one.unknown,
                "flake_rate": one.flake_rate,
                "flake_interval": list(one.interval),
                "margin_min": min(one.margins, default=None),
                "margin_median": median(one.margins) if one.margins else None,
                "margin_max": max(one.margins, default=None),
            }
            for one in repeated(verdicts)
        ],
    }


def repeated_page(plan: str, verdicts: Sequence[Verdict]) -> RenderableType:
    """The same as a page: the rate of the whole first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("finding")
    for head in ("FAIL", "UNKNOWN", "flake rate", "95 % interval", "margin min/median"):
        table.add_column(head, justify="right")
    for one in repeated(verdicts):
        table.add_row(
            one.check, str(one.failed or ""), str(one.unknown or ""), f"{one.flake_rate:.0%}",
            _between(one.interval), _margins(one.margins),
        )  # fmt: skip
    outcomes = ", ".join(f"{count} {name}" for name, count in _outcomes(verdicts).items())
    whole = wilson(_flaky(verdicts), len(verdicts))
    worst = next(o for o in (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS)
                 if any(verdict.outcome is o for verdict in verdicts))  # fmt: skip
    title = Text.assemble(
        (f" {plan} ", f"reverse {STYLES[OUTCOME_TONES[worst]]}"),
        f"  {plural(len(verdicts), 'run')}: {outcomes}; not PASS in "
        f"{_flaky(verdicts) / len(verdicts):.0%} "
        f"(95 % interval {_between(whole)})",
    )
    return Group(Text(), title, table)


def _outcomes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    found = Counter(verdict.outcome for verdict in verdicts)
    return {outcome.value: found[outcome] for outcome in Outcome if found[outcome]}


def _flaky(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.outcome is not Outcome.PASS for verdict in verdicts)


def _between(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{low:.0%} to {high:.0%}"


def _margins(margins: Sequence[float]) -> str:
    return f"{percent(min(margins))} / {percent(median(margins))}" if margins else ""
