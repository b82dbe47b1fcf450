"""Pacing: runs whose speeds say nothing, because learners missed their step time, or the
baseline is noisier than the bound of a check leaves room for.

    pace.set ── learner-0: period 62 ms, overruns 0 0 3 0 … ──► share of periods lost: 3 of 240
                                                                more than 5 % ──► UNKNOWN

With a step time, learners are as fast as the chips that they emulate while the machine can carry
them. Where steps end too late it cannot, and a learner that is slow then is slow because it lacks a
core.

    rate of rounds   its variation over the four quarters of the window ┐  / 2: the noise of the
    steps            likewise, of the median step time of a learner     ┴─► mean of four quarters

noise < |bound - 100%|: the check tells; else it is UNKNOWN, whether it passed or failed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import sqrt
from typing import NamedTuple

from chaoslab.checks.absence import busy_stretches
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.stretches import holds, union
from chaoslab.checks.timeline import (
    baseline_end_s,
    baseline_figure,
    of_learner,
    of_learner_between,
    once,
)
from chaoslab.core.payloads import BaselineMeasured, LearnerStep, PaceSet
from chaoslab.record.history import History

LOST_MOST = 0.05
"""Largest share of lost periods with which a speed is that of the emulated chip."""
LATE_MOST = 0.025
"""Largest share of their time by which the others' steps are late where the slow one is to blame;
on a quiet machine it stays below a hundredth of that."""
OF_SPEED = frozenset(
    {
        Code.GAP_TOO_LONG,
        Code.PACE_TOO_LOW,
        Code.PACE_TOO_HIGH,
        Code.PACE_NOT_REGAINED,
        Code.PEAK_TOO_HIGH,
        Code.ROUNDS_TOO_RARE,
        Code.SLOW_LEARNER_AWAITED,
        Code.SLOWED,
        Code.WORKED_TOO_LITTLE,
    }
)
"""Violations that a machine without enough cores can explain."""


def unless_overrun(
    finding: Finding,
    history: History,
    judged: Iterable[tuple[float, float]],
    *,
    without: Collection[str] = (),
) -> Finding:
    """The finding; UNKNOWN if too many periods were lost in the baseline or in what was `judged`.

    A FAIL for anything but a speed stands. What learners `without` lost excuses nothing, unless
    there was no other.
    """
    if finding.outcome is Outcome.UNKNOWN or not set(finding.codes) <= OF_SPEED:
        return finding
    stretches = union(judged)
    others = lost_share(history, stretches, without=without)
    shares = (
        lost_share(history, stretches) if others is None else others,
        lost_share(history, [_baseline(history)]),
    )
    worst = max((share for share in shares if share is not None), default=0.0)
    if worst <= LOST_MOST:
        return finding
    return replace(
        finding,
        outcome=Outcome.UNKNOWN,
        codes=(*finding.codes, Code.STEP_TIME_NOT_KEPT),
        reason=f"{worst:.1%} of the periods were lost because steps took longer than "
        f"`training.step_time`, and {LOST_MOST:.0%} may be: use a longer step time, or fewer "
        f"learners on this machine ({finding.reason})",
        margin=None,
        numbers={**finding.numbers, "lost_periods_share": round(worst, 4)},
    )


def lost_share(
    history: History, judged: Iterable[tuple[float, float]], *, without: Collection[str] = ()
) -> float | None:
    """Share of their step periods that untargeted learners lost in these stretches; those in
    `without` are left out. None without a step time, or if no step was reported in them.
    """
    made = lost = 0
    stretches = union(judged)
    for learner, reports in _untouched(history).items():
        for start_s, end_s in () if learner in without else stretches:
            first = bisect_left(reports.times_s, start_s)
            last = bisect_right(reports.times_s, end_s)
            made += reports.made[last] - reports.made[first]
            lost += reports.lost[last] - reports.lost[first]
    return lost / (made + lost) if made + lost else None


def late_share(history: History, start_s: float, end_s: float, *, without: str) -> float:
    """Share of their time by which steps ended late, net of what later ones made up.

    Of the learners under a step time that no fault touched, but one; 0 if there is no other. Unlike
    lost periods it shows lateness of less than a period, so it can tell of a short stretch.
    """
    late_s = total_s = 0.0
    for learner in history.founders:
        busy = union(busy_stretches(history, learner))
        said = [
            sample.payload
            for sample in of_learner_between(history, LearnerStep, learner, start_s, end_s)
            if learner != without and not holds(busy, sample.time_s)
        ]
        took_s = sum(one.steps * one.step_s for one in said if one.period_s is not None)
        due_s = sum(one.steps * one.period_s for one in said if one.period_s is not None)
        late_s, total_s = late_s + max(0.0, took_s - due_s), total_s + took_s
    return late_s / total_s if total_s else 0.0


class _Reports(NamedTuple):
    """Reports of steps in order, with running sums from 0 on."""

    times_s: Sequence[float]
    made: Sequence[int]
    lost: Sequence[int]


@once
def _untouched(history: History) -> Mapping[str, _Reports]:
    """Reports of each initial learner under a step time, while no fault affected it."""
    found = {}
    for learner in history.founders if history.last(PaceSet) else ():
        busy = union(busy_stretches(history, learner))
        reports = sorted(
            (sample.time_s, sample.payload.steps, sample.payload.overruns)
            for sample in of_learner(history, LearnerStep, learner)
            if sample.payload.period_s is not None and not holds(busy, sample.time_s)
        )
        found[learner] = _Reports(
            times_s=[time_s for time_s, _, _ in reports],
            made=[*accumulate((steps for _, steps, _ in reports), initial=0)],
            lost=[*accumulate((overruns for _, _, overruns in reports), initial=0)],
        )
    return found


def _baseline(history: History) -> tuple[float, float]:
    """Time from the step time's announcement to the end of the baseline."""
    told, end_s = history.last(PaceSet), baseline_end_s(history)
    return (told.time_s if told else 0.0, end_s or 0.0)


# ---------------------------------------------------------------- the noise of a baseline


_QUARTERS = 4
NOISE = "baseline_noise"
"""Key of a finding's number: noise of what it compares with, as a share of it."""


def noise_of_rounds(history: History) -> float:
    """Noise of the baseline's rate of rounds; 0 if it is not known."""
    variation = baseline_figure(history, lambda said: said.variation)
    return 0.0 if variation is None else variation / sqrt(_QUARTERS)


def noise_of_steps(history: History, learners: Collection[str]) -> float:
    """Largest noise of these learners' step times in the baseline."""
    measured = history.last(BaselineMeasured)
    found = measured.payload.step_variation if measured else {}
    return max((found.get(learner, 0.0) for learner in learners), default=0.0) / sqrt(_QUARTERS)


def unless_noisy(finding: Finding, noise: float, *bounds: float | None) -> Finding:
    """The finding; UNKNOWN if a bound leaves less room than the noise of the baseline takes.

    `bounds` are multiples of the baseline's figure. A FAIL for anything but a speed stands.
    """
    room = min((abs(1 - bound) for bound in bounds if bound is not None), default=0.0)
    told = replace(finding, numbers={**finding.numbers, NOISE: round(noise, 4)})
    if finding.outcome is Outcome.UNKNOWN or not set(finding.codes) <= OF_SPEED:
        return told
    if not noise > room > 0:
        return told
    return replace(
        told,
        outcome=Outcome.UNKNOWN,
        codes=(*finding.codes, Code.BASELINE_NOT_STEADY),
        reason=f"the baseline is uncertain by {noise:.0%}, and the bound leaves {room:.0%}: use a "
        f"longer `baseline.window` or a wider bound ({finding.reason})",
        margin=None,
    )
