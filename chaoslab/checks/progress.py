"""Progress of training: the longest gap between two merged rounds, the tail included.

    baseline ──┼──┼──┼──┼───────gap───────┼──┼──┼──┼── tail ──┤ training ends

A run that stops merging for good has no gap between rounds any more; its tail is the gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chaoslab.checks.absence import Absence, absences
from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.outages import outages
from chaoslab.checks.pacing import unless_overrun
from chaoslab.checks.stretches import holds, union
from chaoslab.checks.timeline import (
    FaultWindow,
    Gap,
    baseline_end_s,
    fault_windows,
    longest_gap,
    training_end_s,
    usual_gap_s,
)
from chaoslab.checks.violations import margin_below, unknown
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.payloads import RoundMerged
from chaoslab.core.units import Bound, Duration, Relative, elapsed, plural
from chaoslab.record.history import History

_THRICE = Relative(factor=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """No gap between two rounds, nor from the last one to the end, is longer than the bound."""

    name: ClassVar[str] = "continuity"
    summary: ClassVar[str] = "rounds go on being merged: no gap longer than the bound"

    max_gap: Bound = binding(_THRICE, most=10, show="{:g}x baseline".format, is_of_baseline=True)
    """Seconds, or a multiple of the longest gap in the baseline."""
    floor_s: Duration = 1.0
    """A relative bound is never tighter than this."""
    min_rounds: int = binding(3, least=1)
    """Rounds that must be merged from each fault's beginning until its victims are back, in all."""

    def __post_init__(self) -> None:
        if not isinstance(self.max_gap, Relative) and self.max_gap <= 0:
            raise PlanError("must be above 0s", key="max_gap")

    def judge(self, history: History) -> Finding:
        """Measure from the end of the baseline to the end of training."""
        start_s, bound_s = baseline_end_s(history), self._bound_s(history)
        if start_s is None or bound_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to measure from")
        windows = fault_windows(history)
        gap = longest_gap(history, start_s, training_end_s(history))
        away = absences(history)
        rounds = _rounds_under_faults(history, windows, away)
        where = f"{_said_gap(gap)} {_circumstances(gap, windows, away)}"
        codes: tuple[Code, ...] = ()
        if gap.length_s > bound_s:
            codes = (Code.GAP_TOO_LONG,)
            outcome, reason = Outcome.FAIL, f"{where}; the bound is {bound_s:.2f} s"
        elif rounds < self.min_rounds:
            outcome, codes = Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,)
            counted = plural(rounds, "round was", "rounds were")
            reason = f"only {counted} merged under faults, {self.min_rounds} are needed"
        else:
            outcome, reason = Outcome.PASS, f"training went on; the longest pause: {where}"
        best_s = self._best_s(history)
        found = Finding(
            check=self.name,
            outcome=outcome,
            reason=reason,
            codes=codes,
            observed=gap.length_s,
            bound=round(bound_s, 3),
            unit=Unit.SECONDS,
            margin=margin_below(gap.length_s, bound_s, best_s),
            best=best_s,
            samples=rounds,
            evidence=gap.evidence,
            numbers={
                "gap_at_s": round(gap.start_s, 3),
                "baseline_gap_s": usual_gap_s(history),
            },
        )
        if not isinstance(self.max_gap, Relative):
            return found  # seconds, however fast the learners are
        return unless_overrun(found, history, [(gap.start_s, gap.end_s)] if codes else [])

    def _bound_s(self, history: History) -> float | None:
        if not isinstance(self.max_gap, Relative):
            return self.max_gap
        baseline_s = usual_gap_s(history)
        return None if baseline_s is None else max(self.floor_s, self.max_gap.factor * baseline_s)

    def _best_s(self, history: History) -> float:
        """The longest gap of the baseline, for a bound that is a multiple of it."""
        if not isinstance(self.max_gap, Relative):
            return 0.0
        return usual_gap_s(history) or 0.0


def _said_gap(gap: Gap) -> str:
    """A gap as the beginning of a sentence, with the figures that the first answer shows."""
    since = f"from {elapsed(gap.start_s)} on"
    if gap.is_tail:
        return f"no round in the last {elapsed(gap.length_s)} of training, {since},"
    return f"no round for {elapsed(gap.length_s)}, {since},"


def _circumstances(gap: Gap, windows: Sequence[FaultWindow], away: Sequence[Absence]) -> str:
    """Circumstances of a gap, as the end of a sentence."""
    names = [str(w) for w in windows if w.start_s < gap.end_s and w.end_s > gap.start_s]
    back = [
        absence.learner
        for absence in away
        if absence.since and absence.since.time_s < gap.end_s and absence.back_s > gap.start_s
    ]
    parts = [f"{' and '.join(names)} {_was(names)} open"] if names else []
    parts += [f"{', '.join(back)} {_was(back)} on the way back"] if back else []
    return f"while {' and '.join(parts) or 'no fault was open'}"


def _was(names: Sequence[str]) -> str:
    return "were" if len(names) > 1 else "was"


def _rounds_under_faults(
    history: History, windows: Sequence[FaultWindow], away: Sequence[Absence]
) -> int:
    """Rounds merged while an injection was open or its victims not back; all without faults.

    Nothing is merged while the syncer is away, so all rounds after that count.
    """
    stretches = [(window.start_s, window.end_s) for window in windows]
    if not stretches:
        stretches = [(baseline_end_s(history) or 0.0, training_end_s(history))]
    stretches += [(absence.gone_s, absence.back_s) for absence in away]
    stretches += [(outage.gone_s, outage.until_s) for outage in outages(history)]
    joined = union(stretches)
    return sum(holds(joined, merged.time_s) for merged in history.of(RoundMerged))
