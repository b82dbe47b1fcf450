"""Evidence of slowness from a learner's own steps: how much slower it was, and by the fault or not.

    |·|·|·|·|·|·|·| begin |  ·  |  ·  |  ·  |  ·  |      learner.step: the mean step time of each
     calm: its own pace      stage 1    stage 2 …        sample, against the calm one

Slowness is told as a ratio, 2 for half the speed; how much of it there is lies beyond 1, so that is
what a tolerance is of. What all the other learners have slowed down by meanwhile is no doing of a
fault on this one, and is taken off.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, harmonic_mean, median

from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import LearnerStep, NodeCounted, NodeRelieved
from chaoslab.core.units import plural
from chaoslab.faults.evidence.codes import Code
from chaoslab.faults.evidence.window import EvidenceWindow, Found, no_evidence, of, of_life
from chaoslab.record.exits import how_it_ended

_CALM_S = 20.0
"""Seconds before the fault in which a learner's own pace is looked up."""
_RECENT_S = 5.0
"""Slow just before the fault is slow without it."""
_ONSET_S = 0.5
"""A new strength shows in whole steps only after this."""
_LEAST_SAMPLES = 3
_BARELY_SHARE = 0.3
"""Share of the requested slowness below which nothing is shown."""
_SHOWN_SHARE = 0.7
"""Least share of its time in which a fault must be seen."""
_THROTTLED_SHARE = 0.05
"""A quota that kept its node from a core for less of the time did not slow it."""
_TELLING_SHARE = 0.3
"""Share of the greatest slowness: stages that differ by less need not be told apart."""
_IN_ORDER_SHARE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Offset after the injection from which a learner is slower by this factor."""

    offset_s: float
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """One report of a learner within one stage."""

    asked: float
    ratio: float
    length_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One learner's pace before and during a fault."""

    own_s: float
    """Step time while it was calm."""
    samples: tuple[_Sample, ...]
    others: float
    """Slowdown of the untouched learners meanwhile; 1 if none is known."""
    proof: tuple[Event, ...]

    @property
    def ratio(self) -> float:
        """Steps that it would have made by its own pace, to those that it made meanwhile.

        Without what slowed all learners. One step that took a second says no more than one that
        took a tenth of it: the time that all of them took is what counts.
        """
        return harmonic_mean([s.ratio for s in self.samples], [s.length_s for s in self.samples])

    @property
    def asked(self) -> float:
        """Requested ratio, over the same time."""
        return harmonic_mean([s.asked for s in self.samples], [s.length_s for s in self.samples])

    @property
    def shown_share(self) -> float:
        """Share of the requested time in which it is seen."""
        telling = [s for s in self.samples if s.asked > 1]
        shown = [s for s in telling if s.ratio >= 1 + _BARELY_SHARE * (s.asked - 1)]
        whole_s = sum(s.length_s for s in telling)
        return sum(s.length_s for s in shown) / whole_s if whole_s else 0.0

    def data(self) -> dict[str, Json]:
        """Data of the evidence."""
        return {
            "step_ratio": self.ratio,
            "step_s_before": self.own_s,
            "others_ratio": self.others,
            "shown_share": self.shown_share,
            "samples": len(self.samples),
        }


def pace_of(
    window: EvidenceWindow, stages: Sequence[Stage], untouched: Collection[str] = ()
) -> Pace | Found:
    """The pace under these stages; why there is no evidence, if there is none.

    What has slowed the `untouched` learners, too, is taken off.
    """
    if window.exited is not None:
        text = f"exited ({how_it_ended(window.exited)}) instead of becoming slow"
        return no_evidence(Code.EXITED_INSTEAD, text)
    calm = [e for e in _steps(window.calm, window) if e.time_s > window.begin_s - _CALM_S]
    if len(calm) < _LEAST_SAMPLES:
        text = "has no steps of its own before the fault to compare with"
        return no_evidence(Code.NO_BASELINE, text)
    recent = [e for e in calm if e.time_s > window.begin_s - _RECENT_S]
    if not recent:
        return no_evidence(Code.NOT_STEPPING, "was not stepping when the fault began")
    own_s = max(median(map(_step_s, calm)), median(map(_step_s, recent)))
    during = _steps(window.during, window)
    others = _others(window, untouched)
    samples = tuple(_samples(during, stages, window, own_s * others))
    if len(samples) < _LEAST_SAMPLES:
        text = f"reported {plural(len(samples), 'whole sample')} during the fault, too few to tell"
        return no_evidence(Code.TOO_FEW_SAMPLES, text)
    return Pace(own_s=own_s, samples=samples, others=others, proof=(calm[-1], during[-1]))


def look_slowed(window: EvidenceWindow, stages: Sequence[Stage], *, tolerance: float) -> Found:
    """Whether it was as slow as asked, for as long, and stage by stage in the right order."""
    pace = pace_of(window, stages, set(window.history.learners) - set(window.injection.targets))
    if isinstance(pace, Found):
        return pace
    shown = (pace.ratio - 1) / (pace.asked - 1) if pace.asked > 1 else 0.0
    text = (
        f"took {pace.ratio:.2f}x its own step time of {pace.own_s * 1000:.0f} ms; "
        f"{pace.asked:.2f}x was asked"
    )
    if pace.others > 1:
        text += f" (the others' {pace.others:.2f}x taken off)"
    if shown < _BARELY_SHARE:
        return no_evidence(Code.NO_EFFECT, text, **pace.data())
    weak: list[tuple[Code, str]] = []
    if pace.shown_share < _SHOWN_SHARE:
        weak.append((Code.NOT_THROUGHOUT, f"only {pace.shown_share:.0%} of the time"))
    if abs(shown - 1) > tolerance:
        said = f"{shown:.0%} of the slowness that was asked, not within {tolerance:.0%}"
        weak.append((Code.OUT_OF_TOLERANCE, said))
    weak += [(Code.DOUBTFUL_CAUSE, said) for said in _other_causes(window)]
    in_order = _in_order(stages, pace)
    if in_order is not None and in_order < _IN_ORDER_SHARE:
        said = f"only {in_order:.0%} of its stages were in the order that was asked"
        weak.append((Code.WRONG_ORDER, said))
    return Found(
        code=weak[0][0] if weak else Code.AS_ASKED,
        text="; ".join([text, *(said for _, said in weak)]),
        measured={**pace.data(), "in_order_share": in_order},
        proof=pace.proof,
    )


def _other_causes(window: EvidenceWindow) -> list[str]:
    """Figures of the stressor that contradict its having slowed the learner."""
    doubts = [
        f"{e.payload.because} at {e.time_s:.1f} s"
        for e in window.of(NodeRelieved)
        if e.payload.injection == window.injection.id and e.payload.because
    ]
    throttled = [
        (e.payload.throttled_s, e.time_s - window.begin_s)
        for e in window.of(NodeCounted)
        if e.payload.injection == window.injection.id and e.payload.throttled_s is not None
    ]
    for kept_s, lasted_s in throttled[-1:]:
        if kept_s < _THROTTLED_SHARE * lasted_s:
            doubts.append(f"its quota kept it from a core for {kept_s:.1f} s of {lasted_s:.1f} s")
    return doubts


# ---------------------------------------------------------------- samples


def _steps(events: Iterable[Event], window: EvidenceWindow) -> list[Event[LearnerStep]]:
    """The reports of the life that the fault met, with a step in them."""
    return [e for e in of_life(events, LearnerStep, window.incarnation) if _step_s(e) > 0]


def _step_s(event: Event[LearnerStep]) -> float:
    return event.payload.step_s


def _length_s(event: Event[LearnerStep]) -> float:
    return _step_s(event) * event.payload.steps


def _samples(
    events: Sequence[Event[LearnerStep]],
    stages: Sequence[Stage],
    window: EvidenceWindow,
    usual_s: float,
) -> Iterable[_Sample]:
    """Samples within one stage, without its onset."""
    starts_s = [window.begin_s + stage.offset_s for stage in stages]
    ends_s = [*starts_s[1:], window.end_s]
    for event in events:
        began_s = event.time_s - _length_s(event)
        for stage, start_s, end_s in zip(stages, starts_s, ends_s, strict=True):
            if start_s + _ONSET_S <= began_s and event.time_s <= end_s:
                ratio, length_s = _step_s(event) / usual_s, _length_s(event)
                yield _Sample(asked=stage.factor, ratio=ratio, length_s=length_s)


def _others(window: EvidenceWindow, untouched: Collection[str]) -> float:
    """The median slowdown of those learners; at least 1."""
    found = []
    for learner in untouched:
        steps = [e for e in of(window.history.about(learner), LearnerStep) if _step_s(e)]
        before = [e for e in steps if window.begin_s - _CALM_S < e.time_s <= window.begin_s]
        during = [e for e in steps if window.begin_s < e.time_s - _length_s(e) < window.end_s]
        if min(len(before), len(during)) >= _LEAST_SAMPLES:
            found.append(median(map(_step_s, during)) / median(map(_step_s, before)))
    return max(1.0, median(found)) if found else 1.0


def _in_order(stages: Sequence[Stage], pace: Pace) -> float | None:
    """Pairs of very different stages that the ratios show in the right order."""
    by_factor: dict[float, list[float]] = {}
    for sample in pace.samples:
        by_factor.setdefault(sample.asked, []).append(sample.ratio)
    most = max(stage.factor for stage in stages)
    pairs = [
        (low, high)
        for low, high in combinations(sorted(by_factor), 2)
        if high - low >= _TELLING_SHARE * (most - 1)
    ]
    if not pairs:
        return None
    return fmean(median(by_factor[low]) < median(by_factor[high]) for low, high in pairs)
