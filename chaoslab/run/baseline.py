"""Baseline: the fault-free stretch before the faults, what it measures, and whether it was steady.

    rounds  0 … warmup | window: four quarters, each with its own rate | faults may begin

`keep_pace` and `await_steady` wait by the run loop. `measure` is pure: a slice of the record in,
figures out. Survivors, gaps and goodput are later compared with these figures, so a baseline that
swings gives no verdict.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean, median, pstdev

from chaoslab.checks.node_clocks import by_node_clocks
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    BaselineMeasured,
    LearnerStep,
    RoundMerged,
    RunOutcome,
    RunStarted,
)
from chaoslab.record.history import History
from chaoslab.run.nodes_start import START_S
from chaoslab.run.run_loop import Ended, RunLoop

WINDOWS = 3
"""How many windows may turn out unsteady before the run gives up."""
_QUARTERS = 4


def keep_pace(run_loop: RunLoop) -> None:
    """Every learner keeps the step time that the plan asks for, if it asks for one."""
    pacer = run_loop.pacer
    if not pacer.is_asked:
        return
    run_loop.until(pacer.is_known, within_s=START_S)
    if not pacer.is_known():
        raise _nothing_injected("the learners reported too few steps for `step_time: auto`")
    _begin_pace(run_loop)


def _begin_pace(run_loop: RunLoop) -> None:
    pacer = run_loop.pacer
    pacer.begin()
    run_loop.until(lambda: not pacer.missing(), within_s=START_S)
    missing = pacer.missing()
    if missing and not run_loop.is_training_over:
        raise _nothing_injected(
            f"{', '.join(missing)} did not report within {START_S:g} s that it keeps the step "
            "time; its program needs the flag --step-time and the hook `pace`"
        )


def await_steady(run_loop: RunLoop, *, is_optional: bool) -> None:
    """Faults wait for a window of rounds with a steady rate; it `is_optional` if there are none."""
    frame, training = run_loop.plan.baseline, run_loop.plan.training
    recorder, pacer = run_loop.recorder, run_loop.pacer
    # rounds that take the ready alone may leave out slower chips for ever
    contributors = training.learner_names if training.contribute == "all" else ()
    first_round = recorder.progress.rounds + frame.warmup
    for windows_left in reversed(range(WINDOWS)):
        since_s = recorder.now_s
        last_round = first_round + frame.window
        run_loop.until(partial(recorder.progress.has_merged, last_round))
        measured = measure(
            recorder.journal.history,
            first_round=first_round,
            last_round=last_round,
            max_variation=frame.max_variation,
            contributors=contributors,
        )
        recorder.note(measured)
        is_last = run_loop.is_training_over or not windows_left
        is_too_fast = not is_last and pacer.is_too_short(since_s)
        if is_optional or (measured.is_steady and not is_too_fast):
            return
        if is_last:
            raise _nothing_injected(measured.reason)
        first_round = last_round
        if is_too_fast:
            _begin_pace(run_loop)
            first_round = recorder.progress.rounds + frame.warmup


def _nothing_injected(reason: str) -> Ended:
    return Ended(RunOutcome.ABORTED, f"nothing was injected: {reason}")


def measure(
    history: History,
    *,
    first_round: int,
    last_round: int,
    max_variation: float,
    contributors: Iterable[str] = (),
) -> BaselineMeasured:
    """Measure the window between merged rounds number `first_round` and `last_round`.

    Both count merged rounds, so the window has last_round - first_round gaps. A window that the
    run did not complete is not steady, nor is one in which a learner of `contributors` contributed
    to no round.
    """
    history = by_node_clocks(history)
    rounds = history.of(RoundMerged)[max(0, first_round - 1) : last_round]
    wanted = last_round - max(0, first_round - 1)
    if len(rounds) < max(2, wanted):
        merged = len(history.of(RoundMerged))
        return _unmeasured(f"training ended after {merged} of the {last_round} rounds it needs")
    times_s = [event.time_s for event in rounds]
    gaps_s = [later - earlier for earlier, later in pairwise(times_s)]
    tokens = rounds[-1].payload.committed_tokens - rounds[0].payload.committed_tokens
    length_s = times_s[-1] - times_s[0]
    if length_s <= 0:
        return _unmeasured("all rounds of the window were seen at the same instant")
    variation = _variation(gaps_s)
    is_even = variation <= max_variation
    reason = (
        f"the rate of rounds varied by {variation:.0%} "
        f"({'within' if is_even else 'more than'} {max_variation:.0%})"
    )
    if absent := sorted(
        set(contributors) - {one.learner for event in rounds for one in event.payload.contributors}
    ):
        reason = f"{', '.join(absent)} contributed to none of the last {len(rounds)} rounds"
    started = history.last(RunStarted)
    step_s = _step_s(history.between(times_s[0], times_s[-1], LearnerStep))
    return BaselineMeasured(
        is_steady=is_even and not absent,
        reason=reason,
        gap_s_median=median(gaps_s),
        gap_s_max=max(gaps_s),
        tokens_per_s=tokens / length_s,
        variation=variation,
        step_s={learner: fmean(own) for learner, own in step_s.items()},
        step_s_median={learner: median(own) for learner, own in step_s.items()},
        step_variation={
            learner: _spread(list(map(median, _quarters(own)))) for learner, own in step_s.items()
        },
        counted=started.payload.counted if started else "tokens",
    )


def _variation(gaps_s: Sequence[float]) -> float:
    """Coefficient of variation of the rate over quarters with equally many gaps."""
    return _spread([1 / max(fmean(quarter), 1e-9) for quarter in _quarters(gaps_s)])


def _quarters(values: Sequence[float]) -> Sequence[Sequence[float]]:
    """In order; fewer if there are not as many values."""
    count = min(_QUARTERS, len(values))
    edges = [len(values) * quarter // count for quarter in range(count + 1)]
    return [values[a:b] for a, b in pairwise(edges)]


def _spread(values: Sequence[float]) -> float:
    """Coefficient of variation; 0 if all are 0."""
    mean = fmean(values)
    return pstdev(values) / mean if mean else 0.0


def _step_s(samples: Iterable[Event[LearnerStep]]) -> Mapping[str, Sequence[float]]:
    """The step times that each learner reported, by name."""
    found: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        found[sample.payload.learner].append(sample.payload.step_s)
    return dict(sorted(found.items()))


def _unmeasured(reason: str) -> BaselineMeasured:
    return BaselineMeasured(
        is_steady=False, reason=reason, gap_s_median=None, gap_s_max=None, tokens_per_s=None,
        variation=None, step_s={},
    )  # fmt: skip
