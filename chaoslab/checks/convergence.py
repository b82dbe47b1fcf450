"""Convergence: the evaluation loss beside that of the fault-free twin.

    loss │ ·                          run ──·──  twin ──o──
         │   o · o ·
         │         o · o ·  ◄─ delta, at the largest committed tokens that both have reached
         └──────────────────► committed tokens

Equal tokens, not equal time: how fast they were committed is goodput's question. Where the twin
ends, so does what can be said of the run: beyond it the answer is UNKNOWN at best.

A share of a loss says nothing where losses may be 0 or below, as those of densities are. There a
difference is a share of what was learnt: of how far losses have fallen.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias

from chaoslab.checks.base import Finding, Outcome, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.resume import script_of
from chaoslab.checks.twin import why_not_comparable
from chaoslab.checks.violations import Doubt, Violation, conclude, margin_below, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    EvaluationMeasured,
    LearnerStep,
    Need,
    NodeExited,
    NodeStarted,
    PushRejected,
    RunLeft,
    UpdateTampered,
)
from chaoslab.core.protocol import PushRefusal
from chaoslab.core.units import Factor, Share, plural, show_share
from chaoslab.record.history import History

_Curve: TypeAlias = Sequence[tuple[float, float]]
"""(committed tokens, loss)"""
_MIN_POINTS = 2
_MIN_COMMON_SHARE = 0.5
"""Less of the run's committed tokens than this says nothing, neither way."""
_MAX_STRETCH_SHARE = 0.5
"""Largest stretch, as a share of the tokens: losses fall fast at first, so a line over more lies
far above them."""
_SCRIPT_REPORTS = 12
_MODELLED = "; both losses are a simulation's, which trains nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossParity:
    """The evaluation loss is within the bound of the fault-free twin's, at equal tokens."""

    name: ClassVar[str] = "loss_parity"
    summary: ClassVar[str] = "evaluation loss at equal committed tokens, against the twin"
    needs: ClassVar[Mapping[str, Need]] = {"": Need.TWIN}

    max_delta: Share = binding(0.05, most=0.9, show=show_share)
    """Largest excess of the run's loss, as a share of the twin's. If any loss is not above 0: as a
    share of the distance between the twin's highest and lowest loss."""

    def judge(self, history: History) -> Finding:
        """Interpolate both curves linearly at the largest committed tokens they share."""
        twin_run = history.twin
        if twin_run is None:
            return unknown(self.name, Code.NO_TWIN, "there is no fault-free twin to compare with")
        run, twin = _curve(history), _curve(twin_run)
        samples = len(run) + len(twin)
        if found := _unfit(run, twin, history, twin_run):
            counted = 0 if found.code is Code.TWIN_NOT_COMPARABLE else samples
            return unknown(self.name, found.code, found.text, samples=counted)
        tokens = min(run[-1][0], twin[-1][0])
        mine, theirs = _at(run, tokens), _at(twin, tokens)
        whole = _whole(run, twin, theirs)
        if not math.isfinite(theirs) or not whole:
            reason = f"the twin's loss is {theirs}" + ("" if whole else " throughout")
            return unknown(self.name, Code.TWIN_NOT_COMPARABLE, reason, samples=samples)
        delta = (mine - theirs) / whole
        where = f"at {tokens:,.0f} committed tokens the loss is {mine:.4f}"
        if not math.isfinite(delta):
            last = history.of(EvaluationMeasured)[-1]
            violation = Violation.at(last, Code.LOSS_NOT_FINITE, where, "")
            return conclude(self.name, [violation], passed="", samples=samples)
        is_beyond = run[-1][0] > tokens
        but = f"; the run was evaluated {_span(run)}, and the twin ended before"
        said = (but if is_beyond else "") + (
            _MODELLED if any(e.payload.is_modelled for e in history.of(EvaluationMeasured)) else ""
        )
        within = Outcome.UNKNOWN if is_beyond else Outcome.PASS
        codes = (Code.TWIN_TOO_SHORT,) if is_beyond else ()
        return Finding(
            check=self.name,
            outcome=within if delta <= self.max_delta else Outcome.FAIL,
            reason=f"{where}, the fault-free twin's {theirs:.4f}: {delta:+.2%}, the bound is "
            f"{self.max_delta:+.2%}{said}",
            codes=codes if delta <= self.max_delta else (Code.LOSS_TOO_HIGH,),
            observed=round(delta, 5),
            bound=self.max_delta,
            unit=Unit.SHARE,
            margin=margin_below(delta, self.max_delta),
            samples=samples,
            evidence=tuple(event.seq for event in history.of(EvaluationMeasured)[-1:]),
            numbers={
                "loss": round(mine, 5),
                "twin_loss": round(theirs, 5),
                "delta_share": round(delta, 5),
                "at_committed_tokens": round(tokens),
            },
        )


def _unfit(run: _Curve, twin: _Curve, history: History, twin_run: History) -> Doubt | None:
    """Why the curves cannot be compared at the largest committed tokens that they share."""
    if min(len(run), len(twin)) < _MIN_POINTS:
        ends = "".join([_how_it_died(history), _how_it_died(twin_run, "twin's ")])
        reason = f"the run was evaluated {_often(run)} and the twin {_often(twin)}; each needs "
        return Doubt(Code.TOO_FEW_SAMPLES, f"{reason}{_MIN_POINTS}{ends or _more_often(run)}")
    if why := why_not_comparable(history, twin_run):
        text = f"the fault-free twin cannot be compared with: {why}"
        return Doubt(Code.TWIN_NOT_COMPARABLE, text)
    tokens, least = min(run[-1][0], twin[-1][0]), _MIN_COMMON_SHARE * run[-1][0]
    if tokens < max(run[0][0], twin[0][0], least):
        reason = f"the run was evaluated {_span(run)} and the twin {_span(twin)}"
        remedy = "raise limits.timeout, so that the twin can go on, or lower evaluate_every"
        return Doubt(Code.TWIN_TOO_SHORT, f"{reason}; both must reach {least:,.0f}: {remedy}")
    if coarse := _coarse(run, tokens) or _coarse(twin, tokens, "twin"):
        return Doubt(Code.TOO_FEW_SAMPLES, f"{coarse}{_more_often(run)}")
    return None


def _how_it_died(history: History, whose: str = "") -> str:
    """How an evaluator that did not end well ended, and its last words, as an addition."""
    roles = {e.payload.node: e.payload.role for e in history.of(NodeStarted)}
    for event in history.of(NodeExited):
        code, signal = event.payload.exit_code, event.payload.signal
        if roles.get(event.payload.node) == "evaluator" and code != 0:
            said = event.payload.last_words.rsplit("\n", maxsplit=1)[-1]
            how = f"was ended by {signal}" if signal else f"exited with code {code}"
            return f"; the {whose}evaluator {how}{f': {said}' if said else ''}"
    return ""


def _curve(history: History) -> _Curve:
    """Losses in the order of their tokens, one for each number of tokens."""
    measured = history.of(EvaluationMeasured)
    return sorted({e.payload.committed_tokens: e.payload.loss for e in measured}.items())


def _span(curve: _Curve) -> str:
    return f"from {curve[0][0]:,.0f} to {curve[-1][0]:,.0f} committed tokens"


def _whole(run: _Curve, twin: _Curve, theirs: float) -> float:
    """Divisor of a difference: the twin's loss, or all that it learnt; 0 if there was nothing."""
    if all(loss > 0 for _, loss in (*run, *twin) if math.isfinite(loss)):
        return theirs
    losses = [loss for _, loss in twin if math.isfinite(loss)]
    return max(losses, default=0.0) - min(losses, default=0.0)


def _coarse(curve: _Curve, tokens: float, whose: str = "run") -> str:
    """Why the evaluations around a point are too far apart for a comparison; empty if not."""
    if any(tokens == measured for measured, _ in curve):
        return ""
    before = max(measured for measured, _ in curve if measured < tokens)
    after = min(measured for measured, _ in curve if measured > tokens)
    if after - before <= _MAX_STRETCH_SHARE * tokens:
        return ""
    return (
        f"at {tokens:,.0f} committed tokens nothing is known: the {whose} was evaluated at "
        f"{before:,.0f} and then at {after:,.0f}"
    )


def _often(curve: _Curve) -> str:
    if len(curve) == 1:
        return f"once (at {curve[0][0]:,.0f} committed tokens)"
    return plural(len(curve), "time")


def _more_often(curve: _Curve) -> str:
    """Settings by which the next run is evaluated often enough."""
    if not curve or not curve[-1][0]:
        return ": let training go on for longer (`training.stop`)"
    return f": set `training.evaluate_every` to {max(1, curve[-1][0] // 10):.0f}"


def _at(curve: _Curve, tokens: float) -> float:
    """Linear interpolation; `tokens` lies within the curve."""
    for (left, low), (right, high) in pairwise(curve):
        if left <= tokens <= right:
            return low + (high - low) * (tokens - left) / (right - left)
    raise ValueError(f"{tokens} lies outside of the curve {curve[0][0]} to {curve[-1][0]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericHealth:
    """No loss is NaN, infinite or far above the untrained one, and no update was refused as such.

    The untrained loss is that of the evaluation at zero committed tokens. A run that was not
    evaluated there has the highest loss that a learner reported first, in its first life.
    """

    name: ClassVar[str] = "numeric_health"
    summary: ClassVar[str] = "losses stay finite and do not run away"

    max_loss: Factor = binding(2.0, most=10, show="{:g}x".format)
    """Highest loss, against the untrained one: 2x allows a rise above it by as much as it is, or by
    as much as losses fell below it if that is more, as of losses below 0."""

    def judge(self, history: History) -> Finding:
        """Look at every sampled training loss, every evaluation and every refused update."""
        told = [
            (event, event.payload.loss) for event in history.of(LearnerStep, EvaluationMeasured)
        ]
        losses = [(event, loss) for event, loss in told if loss is not None]
        values = [loss for _, loss in losses]
        finite = [value for value in values if math.isfinite(value)]
        untrained = untrained_loss(history)
        bound = math.inf
        if untrained is not None:
            reach = max(abs(untrained), untrained - min(finite))
            bound = untrained + (self.max_loss - 1) * reach
        violations = [
            _unhealthy(event, value, bound, self.max_loss)
            for event, value in losses
            if not math.isfinite(value) or value > bound
        ]
        refused = [
            e for e in history.of(PushRejected) if e.payload.reason is PushRefusal.NOT_FINITE
        ]
        asked = _asked_to_send_nonsense(history)
        for event in refused:
            learner = event.payload.learner
            if learner not in asked:
                text = f"{learner} pushed an update that was not finite"
                violations += [Violation.at(event, Code.UPDATE_NOT_FINITE, text, learner)]
        return conclude(
            self.name,
            violations,
            nothing=Doubt(Code.NOTHING_TO_JUDGE, "no loss was recorded"),
            passed=f"{plural(len(values), 'loss was', 'losses were')} finite, "
            f"the highest {max(finite, default=0):.3f}",
            samples=len(values),
            numbers={
                "untrained_loss": untrained,
                "highest_loss": max(finite, default=None),
                "refused_updates": len(refused),
            },
        )


def untrained_loss(history: History) -> float | None:
    """Before any token was committed; None if no finite loss tells it, or others began before.

    Of a script the highest of each worker's first losses: each may be that of a single batch.
    """
    if history.last(RunLeft) is not None:
        return None
    at_zero = [
        event.payload.loss
        for event in history.of(EvaluationMeasured)
        if event.payload.committed_tokens == 0
    ]
    firsts: dict[str, list[float]] = defaultdict(list)
    founders, most = history.founders, 1 if script_of(history) is None else _SCRIPT_REPORTS
    for event in history.of(LearnerStep):
        said = event.payload
        if said.incarnation == 1 and said.learner in founders and len(firsts[said.learner]) < most:
            firsts[said.learner].append(said.known_loss)
    reported = [loss for losses in firsts.values() for loss in losses]
    known = [loss for loss in at_zero or reported if math.isfinite(loss)]
    return max(known, default=None)


def _unhealthy(
    event: Event[LearnerStep | EvaluationMeasured], value: float, bound: float, factor: float
) -> Violation:
    said = event.payload
    if isinstance(said, EvaluationMeasured):
        subject, where = "the evaluation", f"at {said.committed_tokens:,.0f} committed tokens"
    else:
        subject, where = said.learner, f"at {event.time_s:.1f} s"
    if not math.isfinite(value):
        return Violation.at(
            event, Code.LOSS_NOT_FINITE, f"{subject}'s loss became {value} {where}", subject
        )
    limit = f"the bound is {bound:.3f} (`max_loss: {factor:g}x`)"
    text = f"{subject}'s loss was {value:.3f} {where}; {limit}"
    return Violation.at(event, Code.LOSS_TOO_HIGH, text, subject)


def _asked_to_send_nonsense(history: History) -> set[str]:
    """Learners under a fault whose test hook reported manipulated updates."""
    tampered = {event.payload.learner for event in history.of(UpdateTampered)}
    return {learner for story in history.faults for learner in story.targets if learner in tampered}
