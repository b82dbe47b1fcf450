"""Margins of one plan over its runs, and whether a green gate is eroding.

    runs of the plan ─► those alike the newest: plan, fleet, machine ─► margins by check
                                                                          └─► slope ─► falling?

A margin that falls from run to run is news while everything still passes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from shlex import quote
from statistics import median

from chaoslab.archive.index import PastRun
from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, FleetError, PlanError
from chaoslab.undo.harness import is_in_progress

CONFIDENCE = 0.99
"""A plan has ten findings, and each is asked: with 95 %, every fourth steady plan would seem to
fall or to rise."""
_Z = 2.575829
RUNS_LEAST = 6
"""Fewest runs: with fewer, even falling margins alone are no proof at this confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Slope of a series by Theil and Sen: robust against single runs that were unlucky.

        values of runs 0, 1, … ─► slopes of all pairs ─► their median, and an interval around it

    P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63 (1968).
    """

    per_run: float
    low: float
    high: float
    """Between which two slopes the true one lies, with the confidence above."""

    @property
    def falls(self) -> bool:
        """Whether it certainly falls."""
        return self.high < 0

    @property
    def rises(self) -> bool:
        """Whether it certainly rises."""
        return self.low > 0


def slope(values: Sequence[float]) -> Slope | None:
    """The slope of a series, the oldest first; None for fewer values than `RUNS_LEAST`."""
    runs = len(values)
    if runs < RUNS_LEAST:
        return None
    pairs = combinations(enumerate(values), 2)
    slopes = sorted((later - before) / (j - i) for (i, before), (j, later) in pairs)
    # without a trend, the number of rising less that of falling pairs has this deviation
    reach = _Z * math.sqrt(runs * (runs - 1) * (2 * runs + 5) / 18)
    aside = max(0, math.floor((len(slopes) - reach) / 2))
    return Slope(per_run=median(slopes), low=slopes[aside], high=slopes[-1 - aside])


_MACHINE = ("system", "machine", "cores")
"""Facts of a host that must be equal for margins to be compared."""


class LeftOut(StrEnum):
    """Reason for which a run is no part of a trend."""

    NOT_JUDGED = "not judged"
    DAMAGED = "damaged"
    UNREADABLE = "its verdict.json cannot be read"
    OTHER_PLAN = "another version of the plan"
    OTHER_FLEET = "another fleet"
    OTHER_MACHINE = "another machine"


class Direction(StrEnum):
    """Direction of a margin."""

    FALLING = "falling"
    RISING = "rising"
    STEADY = "steady"
    """No change that chance could not explain."""
    TOO_FEW = "too few runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginTrend:
    """The margins of one check, the oldest first; of the runs in which it has one."""

    check: str
    margins: tuple[float, ...]
    slope: Slope | None

    @property
    def median(self) -> float:
        """Median of all margins."""
        return median(self.margins)

    @property
    def change(self) -> float | None:
        """Change of the margin from the first run to the last, by the slope."""
        return None if self.slope is None else self.slope.per_run * (len(self.margins) - 1)

    @property
    def direction(self) -> Direction:
        """Direction by the interval of the slope."""
        if self.slope is None:
            return Direction.TOO_FEW
        if self.slope.falls:
            return Direction.FALLING
        return Direction.RISING if self.slope.rises else Direction.STEADY

    @property
    def runs_left(self) -> float | None:
        """Number of further runs until nothing is left of the margin, if it continues to fall."""
        if self.slope is None or not self.slope.falls or self.margins[-1] <= 0:
            return None
        return self.margins[-1] / -self.slope.per_run

    def is_eroding(self, max_drop: float) -> bool:
        """Whether it certainly falls, and has fallen by more than `max_drop`."""
        change = self.change
        return self.direction is Direction.FALLING and change is not None and -change > max_drop


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Trend of one plan over its runs."""

    plan: str
    runs: tuple[PastRun, ...]
    """The oldest first; all alike in plan, fleet and machine."""
    verdicts: tuple[Verdict, ...]
    margins: tuple[MarginTrend, ...]
    left_out: Mapping[LeftOut, int]
    without_verdict: tuple[PastRun, LeftOut] | None = None
    """Newest finished run, if it is newer than `runs`, and why it is not one of them."""

    def eroding(self, max_drop: float) -> tuple[MarginTrend, ...]:
        """Margins that fall and have fallen by more than `max_drop`."""
        return tuple(one for one in self.margins if one.is_eroding(max_drop))

    @property
    def effective_shares(self) -> tuple[float, ...]:
        """Effective training time ratio (ETTR) of each run that has one, the oldest first."""
        known = (verdict.work_lost for verdict in self.verdicts)
        return tuple(lost.effective_share for lost in known if lost is not None)

    @property
    def has_margins(self) -> bool:
        """Whether a check had a margin in any of the runs."""
        return any(one.margin is not None for verdict in self.verdicts for one in verdict.findings)

    @property
    def runs_missing(self) -> int:
        """How many more runs it takes until all margins of the newest run can be told to fall; 0
        if there are no margins.
        """
        if not self.has_margins:
            return 0
        newest = self.verdicts[-1].by_name
        has_one = {name for name, finding in newest.items() if finding.margin is not None}
        have = min((len(one.margins) for one in self.margins if one.check in has_one), default=0)
        return max(0, RUNS_LEAST - have)

    def exit_code(self, max_drop: float) -> ExitCode:
        """Exit code of the newest finished run if that is not PASS (UNKNOWN without a verdict);
        else FAIL if a margin is eroding, UNKNOWN if there are too few runs, PASS otherwise.
        """
        if self.without_verdict:
            return ExitCode.UNKNOWN
        if (newest := self.verdicts[-1].exit_code) is not ExitCode.PASS:
            return newest
        if self.eroding(max_drop):
            return ExitCode.FAIL
        return ExitCode.UNKNOWN if self.runs_missing else ExitCode.PASS


def trend(runs: Sequence[PastRun], *, last: int) -> Trend:
    """The trend over at most `last` runs of one plan, given the newest first.

    Left out is what cannot be compared with the newest judged run. PlanError if none was judged.
    """
    found: list[tuple[PastRun, Verdict]] = []
    left_out: Counter[LeftOut] = Counter()
    without_verdict: tuple[PastRun, LeftOut] | None = None
    for run in runs:
        if len(found) == last:
            break
        verdict, why = _read(run, found[0][0] if found else run)
        if verdict is None:
            why = why or LeftOut.NOT_JUDGED
            left_out[why] += 1
            if not (found or without_verdict or is_in_progress(run.directory.path)):
                without_verdict = run, why
        else:
            found.append((run, verdict))
    if not found:
        raise _none_judged(runs)
    found.reverse()
    return Trend(
        plan=found[-1][0].plan,
        runs=tuple(run for run, _ in found),
        verdicts=tuple(verdict for _, verdict in found),
        margins=_margins([verdict for _, verdict in found]),
        left_out=dict(left_out),
        without_verdict=without_verdict,
    )


def _none_judged(runs: Sequence[PastRun]) -> PlanError:
    """Advice; why not even that is possible, if every run.json is damaged."""
    whole = next((run for run in runs if not run.damage), None)
    if runs and whole is None:
        return PlanError(runs[0].damage)
    where = whole.directory.path if whole else ""
    return PlanError(
        f"no run of it was judged yet: call `chaoslab show {quote(str(where))} --judge` first"
    )


def _read(run: PastRun, newest: PastRun) -> tuple[Verdict | None, LeftOut | None]:
    """Its verdict, or why it is left out."""
    if run.damage:
        return None, LeftOut.DAMAGED
    if run is not newest and (why := _unlike(run, newest)):
        return None, why
    try:
        return run.verdict(), None
    except FleetError:  # `show --judge` writes it anew; the count is shown
        return None, LeftOut.UNREADABLE


def _unlike(run: PastRun, newest: PastRun) -> LeftOut | None:
    if run.facts.get("fleet") != newest.facts.get("fleet"):
        return LeftOut.OTHER_FLEET
    if any(run.machine.get(key) != newest.machine.get(key) for key in _MACHINE):
        return LeftOut.OTHER_MACHINE
    return LeftOut.OTHER_PLAN if run.plan_version() != newest.plan_version() else None


def _margins(verdicts: Sequence[Verdict]) -> tuple[MarginTrend, ...]:
    """Margins of every check that had a margin and an answer in any run."""
    series: dict[str, list[float]] = {}
    for verdict in verdicts:
        for name, finding in verdict.by_name.items():
            if finding.margin is not None and finding.outcome is not Outcome.UNKNOWN:
                series.setdefault(name, []).append(finding.margin)
    return tuple(
        MarginTrend(check=name, margins=tuple(margins), slope=slope(margins))
        for name, margins in series.items()
    )
