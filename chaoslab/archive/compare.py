"""Comparison of two runs: their findings side by side, and what changed in between.

before ─┬─ findings by name ─► Pair: outcome, margin, how much of the margin is gone
after  ─┘                          └─► worse │ unknown │ none
        └─ changes ─► seed, plan, code, machine
"""

from dataclasses import dataclass
from enum import StrEnum

from chaoslab.archive.changes import Change, changes
from chaoslab.archive.index import PastRun, judged
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.pacing import NOISE
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json


class Regression(StrEnum):
    """What became of one finding."""

    NONE = "none"
    WORSE = "worse"
    UNKNOWN = "unknown"
    """It was PASS, and the later run does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One check in two runs; None where a run has no such finding."""

    check: str
    before: Finding | None
    after: Finding | None

    @property
    def change(self) -> float | None:
        """By how much the margin rose; None unless both have one."""
        was, is_now = (None if one is None else one.margin for one in (self.before, self.after))
        return None if was is None or is_now is None else is_now - was

    @property
    def noises(self) -> tuple[float | None, float | None]:
        """How uncertain the baseline was that it compared with; None if it compares with none."""
        before, after = (
            one.numbers.get(NOISE) if one else None for one in (self.before, self.after)
        )
        return _number(before), _number(after)

    @property
    def is_broken(self) -> bool:
        """Whether the later run fails, or does not tell, where the earlier one did better."""
        was, is_now = _outcome(self.before), _outcome(self.after)
        return is_now is not was and (is_now is Outcome.FAIL or was is Outcome.PASS)

    def regression(self, max_drop: float) -> Regression:
        """Whether it is as good as before, when margins may fall by `max_drop`."""
        was, is_now = _outcome(self.before), _outcome(self.after)
        if is_now is Outcome.FAIL and was is not Outcome.FAIL:
            return Regression.WORSE
        if self.change is not None and -self.change > max_drop:
            return Regression.WORSE
        if was is Outcome.PASS and is_now is not Outcome.PASS:
            return Regression.UNKNOWN
        return Regression.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs side by side."""

    before: PastRun
    after: PastRun
    verdicts: tuple[Verdict, Verdict]
    pairs: tuple[Pair, ...]
    """In the order of the later run's verdict, then what only the earlier one has."""
    changes: tuple[Change, ...]

    def exit_code(self, max_drop: float) -> ExitCode:
        """FAIL if anything got worse, UNKNOWN if the later run does not tell, else PASS."""
        found = {pair.regression(max_drop) for pair in self.pairs}
        if Regression.WORSE in found:
            return ExitCode.FAIL
        return ExitCode.UNKNOWN if Regression.UNKNOWN in found else ExitCode.PASS


def compare(before: PastRun, after: PastRun) -> Comparison:
    """Compare two judged runs, of one plan or of two. PlanError if one was never judged."""
    verdicts = judged(before), judged(after)
    was, is_now = (verdict.by_name for verdict in verdicts)
    names = dict.fromkeys((*is_now, *was))
    return Comparison(
        before=before,
        after=after,
        verdicts=verdicts,
        pairs=tuple(
            Pair(check=name, before=was.get(name), after=is_now.get(name)) for name in names
        ),
        changes=changes(before, after),
    )


def _number(value: Json) -> float | None:
    return value if isinstance(value, float) else None


def _outcome(finding: Finding | None) -> Outcome | None:
    return None if finding is None else finding.outcome
