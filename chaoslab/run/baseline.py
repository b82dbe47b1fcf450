"""The fault-free stretch before the faults: what it measures, and whether it was steady.

    rounds  0 … warmup | window: four quarters, each with its own rate | faults may begin

Pure: a slice of the record in, figures out. Survivors, gaps and goodput are later compared with
these figures, so a baseline that swings gives no verdict.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev

from chaoslab.checks.node_clocks import by_node_clocks
from chaoslab.core.events import Event
from chaoslab.core.payloads import BaselineMeasured, LearnerStep, RoundMerged
from chaoslab.record.journal import History

_QUARTERS = 4


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
    if absent := sorted(set(contributors) - _contributors(rounds)):
        reason = f"{', '.join(absent)} contributed to none of the last {len(rounds)} rounds"
    return BaselineMeasured(
        is_steady=is_even and not absent,
        reason=reason,
        gap_s_median=median(gaps_s),
        gap_s_max=max(gaps_s),
        tokens_per_s=tokens / length_s,
        variation=variation,
        step_s=_step_s(history.between(times_s[0], times_s[-1], LearnerStep)),
    )


def _contributors(rounds: Iterable[Event[RoundMerged]]) -> set[str]:
    return {one.learner for event in rounds for one in event.payload.contributors}


def _variation(gaps_s: Sequence[float]) -> float:
    """Coefficient of variation of the rate over quarters with equally many gaps."""
    count = min(_QUARTERS, len(gaps_s))
    edges = [len(gaps_s) * quarter // count for quarter in range(count + 1)]
    times_s = [sum(gaps_s[a:b]) / (b - a) for a, b in pairwise(edges)]
    rates = [1 / max(time_s, 1e-9) for time_s in times_s]
    return pstdev(rates) / fmean(rates)


def _step_s(samples: Iterable[Event[LearnerStep]]) -> Mapping[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        found[sample.payload.learner].append(sample.payload.step_s)
    return {learner: fmean(found[learner]) for learner in sorted(found)}


def _unmeasured(reason: str) -> BaselineMeasured:
    return BaselineMeasured(
        is_steady=False, reason=reason, gap_s_median=None, gap_s_max=None, tokens_per_s=None,
        variation=None, step_s={},
    )  # fmt: skip
