"""Survivors, learners that no fault touched: their pace, their process and their step counter.

    learner-2 samples  |·|·|·|·|·|·|·|·|·|·|·|      baseline ◄─► under the fault: median step time
    learner-1 under injection-0  ▇▇▇▇▇▇▇            a survivor stalls: no sample where many
                                                    were due

A learner that waits for a round, as synchronous algorithms demand, stalls like any other: the
finding says what it waited for.

A learner is a survivor of a fault that does not target it, except while it is itself under another
fault or on its way back from one. Learners that joined later have no baseline, so it is not
known whether they kept their pace.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import ClassVar

from chaoslab.checks.absence import busy_stretches
from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.pacing import (
    LATE_MOST,
    late_share,
    noise_of_steps,
    unless_noisy,
    unless_overrun,
)
from chaoslab.checks.stretches import Stretches, holds, union
from chaoslab.checks.timeline import (
    FaultWindow,
    baseline_end_s,
    fault_windows,
    of_learner,
    of_learner_between,
)
from chaoslab.checks.unrequested_exits import unrequested
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude
from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import BaselineMeasured, LearnerStep, LearnerWaiting
from chaoslab.core.units import Factor, plural
from chaoslab.record.history import History

_CONTRADICTION, _HEARD_LATE_S = 1.5, 1.0
"""Reported times that differ from the counter's pace by more are not true."""
_DUE_FACTOR = 2.0
"""A hang needs a fault long enough for this many times the samples that were asked for."""


@dataclass(frozen=True, kw_only=True)
class _Pace:
    """One survivor under one fault. `own_s` is its baseline step time, if known."""

    learner: str
    window: FaultWindow
    samples: tuple[Event[LearnerStep], ...]
    own_s: float | None
    samples_due: float
    """Samples expected by its baseline; 0 if it was itself away for a part of the time."""
    waits: tuple[Event[LearnerWaiting], ...]
    """Its reports that it waited for a round."""

    @property
    def said_wait(self) -> str:
        """Its longest wait for a round, as the end of a sentence; empty if it did not wait."""
        if not self.waits:
            return ""
        longest = max(self.waits, key=lambda event: event.payload.waited_s).payload
        what = f"a round of fragment {longest.fragment}"
        what = "other learners" if longest.is_for_learners else what
        return f"; it waited {longest.waited_s:.1f} s for {what}"

    @cached_property
    def slowdown(self) -> float | None:
        """Median step time against its own baseline; None without samples or baseline."""
        if not self.own_s or not self.samples:
            return None
        return median(sample.payload.step_s for sample in self.samples) / self.own_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivors:
    """Each survivor keeps its pace and its process, and its step never goes back."""

    name: ClassVar[str] = "survivors"
    summary: ClassVar[str] = "untargeted learners keep their speed and process"

    max_slowdown: Factor = binding(1.25, most=10, show="{:g}x".format)
    """Median step time under a fault, against the learner's own baseline."""
    min_samples: int = binding(3, least=1)
    """Samples that a survivor needs under one fault for its pace to be judged there."""

    def __post_init__(self) -> None:
        if self.max_slowdown <= 0:
            raise PlanError("must be above 0x", key="max_slowdown")

    def judge(self, history: History) -> Finding:
        """Compare each survivor under each fault; what else went wrong is a violation too."""
        paces = list(_paces(history))
        judged = [p for p in paces if len(p.samples) >= self.min_samples and p.slowdown is not None]
        slowdowns = [pace.slowdown or 0.0 for pace in judged]
        unjudged = {p.learner for p in paces} - {p.learner for p in judged}
        worst = max(slowdowns, default=0.0)
        violations = [v for v in unrequested(history) if v.culprit in history.learners]
        violations += _steps_back(history)
        problems = [self._pace_problem(pace, history) for pace in paces]
        violations += [v for pace in judged if (v := _misreported(pace)) is not None]
        doubt = None
        if not paces:
            doubt = Doubt(Code.NO_FAULT, "no fault left a survivor to watch")
        elif unjudged:
            text = f"too few step samples under a fault of {', '.join(sorted(unjudged))}"
            doubt = Doubt(Code.TOO_FEW_SAMPLES, text)
        found = conclude(
            self.name,
            [*violations, *problems, doubt],
            passed=f"{plural(len({p.learner for p in judged}), 'survivor')} kept pace: at worst "
            f"a step took {worst:.2f}x its own baseline",
            samples=sum(len(pace.samples) for pace in judged),
            measured=Measured(worst, self.max_slowdown, Unit.FACTOR, best=1.0) if judged else None,
            numbers={"slowdown_factor": _slowest(judged)},
        )
        noise = noise_of_steps(history, {pace.learner for pace in judged})
        found = unless_overrun(found, history, [(p.window.start_s, p.window.end_s) for p in judged])
        return unless_noisy(found, noise, self.max_slowdown)

    def _pace_problem(self, pace: _Pace, history: History) -> Violation | Doubt | None:
        """Violation by its pace; a doubt if the others were late as well."""
        first = pace.samples[0] if pace.samples else pace.window.story.injecting
        if len(pace.samples) < self.min_samples <= pace.samples_due / _DUE_FACTOR:
            seconds = pace.window.end_s - pace.window.start_s
            text = (
                f"{pace.learner} stalled: {plural(len(pace.samples), 'step sample')} in "
                f"{seconds:.1f} s while {pace.window} was open, about {pace.samples_due:.0f} were "
                f"due{pace.said_wait}"
            )
            return Violation.at(first, Code.STALLED, text, pace.learner)
        if len(pace.samples) < self.min_samples or (pace.slowdown or 0.0) <= self.max_slowdown:
            return None
        text = (
            f"{pace.learner} took {pace.slowdown:.2f}x its own step time while {pace.window} "
            f"was open; the bound is {self.max_slowdown:g}x{pace.said_wait}"
        )
        window = pace.window
        late = late_share(history, window.start_s, window.end_s, without=pace.learner)
        if late <= LATE_MOST:
            return Violation.at(first, Code.SLOWED, text, pace.learner)
        why = f"the others' steps were {late:.1%} late then, as on a busy machine"
        return Doubt(Code.STEP_TIME_NOT_KEPT, f"{text}; {why}")


# ---------------------------------------------------------------- the samples of each survivor


def _paces(history: History) -> Iterator[_Pace]:
    """Every survivor under every fault that it was at work for, at least a part of the time."""
    windows = fault_windows(history)
    measured = history.last(BaselineMeasured)
    for learner in history.founders:
        samples = of_learner(history, LearnerStep, learner)
        every_s = _sampled_every_s(samples, baseline_end_s(history))
        busy = busy_stretches(history, learner)
        joined = union(busy)
        for window in windows:
            if learner in window.story.targets:
                continue
            if any(s <= window.start_s and window.end_s <= e for s, e in busy):
                continue
            is_whole = not any(s < window.end_s and window.start_s < e for s, e in busy)
            seconds = window.end_s - window.start_s
            yield _Pace(
                learner=learner,
                window=window,
                samples=_samples(history, learner, window, joined),
                own_s=measured.payload.step_s_median.get(learner) if measured else None,
                samples_due=seconds / every_s if is_whole and every_s else 0.0,
                waits=tuple(
                    of_learner_between(
                        history, LearnerWaiting, learner, window.start_s, window.end_s
                    )
                ),
            )


def _sampled_every_s(samples: Sequence[Event], until_s: float | None) -> float | None:
    """Mean time between two samples in the baseline; None with fewer than two."""
    times_s = [sample.time_s for sample in samples if until_s and sample.time_s <= until_s]
    return (times_s[-1] - times_s[0]) / (len(times_s) - 1) if len(times_s) > 1 else None


def _samples(
    history: History, learner: str, window: FaultWindow, busy: Stretches
) -> tuple[Event[LearnerStep], ...]:
    """Samples of a learner at work whose steps were all made while the injection was open."""
    meanwhile = of_learner_between(history, LearnerStep, learner, window.start_s, window.end_s)
    return tuple(
        sample
        for sample in meanwhile
        if window.start_s <= sample.time_s - sample.payload.steps * sample.payload.step_s
        and not holds(busy, sample.time_s)
    )


def _slowest(judged: Sequence[_Pace]) -> Mapping[str, Json]:
    """The largest slowdown of each survivor."""
    worst: dict[str, float] = {}
    for pace in judged:
        worst[pace.learner] = max(worst.get(pace.learner, 0.0), round(pace.slowdown or 0.0, 3))
    return worst


# ---------------------------------------------------------------- what else must not happen


def _misreported(pace: _Pace) -> Violation | None:
    """Step times that its step counter contradicts: only the learner itself reports them.

    The harness may be late to hear a report, and a learner may join again in between.
    """
    first, *later = pace.samples
    if not later or len({sample.payload.epoch for sample in pace.samples}) > 1:
        return None
    seen_s = later[-1].time_s - first.time_s
    said_s = sum(sample.payload.steps * sample.payload.step_s for sample in later)
    shorter_s, longer_s = sorted((seen_s, said_s))
    if not pace.samples_due or longer_s <= _CONTRADICTION * shorter_s + _HEARD_LATE_S:
        return None
    text = (
        f"{pace.learner} reported step times that add up to {said_s:.1f} s, and its counter "
        f"took {seen_s:.1f} s for the same steps while {pace.window} was open"
    )
    return Violation.at(first, Code.STEP_TIMES_FALSE, text, pace.learner)


def _steps_back(history: History) -> Iterator[Violation]:
    """A step count that falls within one membership, or at all if no fault ever targeted it."""
    touched = {node for story in history.faults for node in story.targets}
    last: dict[tuple[str, int, int], float] = {}
    for sample in history.of(LearnerStep):
        learner, step = sample.payload.learner, sample.payload.step
        life = (sample.payload.incarnation, sample.payload.epoch) if learner in touched else (0, 0)
        before = last.get((learner, *life), 0.0)
        last[learner, *life] = step
        if step < before:
            text = f"{learner} went back from step {before:.0f} to step {step:.0f}"
            yield Violation.at(sample, Code.STEP_WENT_BACK, text, learner)
