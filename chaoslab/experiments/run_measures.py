"""Measures of a simulated run between two times: what was trained, merged, and how steadily.

    learner.step ───► tokens trained ─┐
    round.merged ─┬─► committed ──────┼─► shares of what undisturbed learners would have done
                  ├─► contributors    │
                  └─► gaps ───────────┘

Nearly all are shares of one. Learners of the start, each at its own speed and without any fault or
wait, are 1.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from chaoslab.checks.stretches import overlap_s, union
from chaoslab.checks.timeline import baseline_end_s, baseline_figure, trained, training_end_s
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event
from chaoslab.core.payloads import LearnerAdopted, PaceSet, RoundMerged
from chaoslab.experiments.units import TOKENS_PER_S, Unit
from chaoslab.plan.model import FaultPlan
from chaoslab.record.history import History

MEASURES = (
    "goodput", "goodput_fastest", "committed", "free", "committed_free", "not_merged",
    "overwritten", "contributors", "rounds", "uptime", "time_to_tokens", "merged_rate",
)  # fmt: skip
UNITS: Final[Mapping[str, Unit]] = {"merged_rate": TOKENS_PER_S}
_GAP = 3.0
"""Times the usual time between two rounds: a longer gap is a time in which the run stalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a run, with what undisturbed learners do in it."""

    history: History
    plan: FaultPlan
    start_s: float
    end_s: float

    def __post_init__(self) -> None:
        if self.end_s <= self.start_s:
            raise PlanError(f"{self.plan.name} ended before anything could be measured")

    @property
    def length_s(self) -> float:
        """Its length."""
        return self.end_s - self.start_s

    @property
    def step_s(self) -> float:
        """Duration of a step at full speed."""
        paced = self.history.last(PaceSet)
        if paced is None:
            raise PlanError(
                "needs a step time to measure shares of: write `auto`, or 500ms",
                key="training.step_time",
            )
        return paced.payload.step_s

    def capacity(self, learners: Collection[str]) -> float:
        """Tokens that these learners train in it if nothing disturbs them."""
        inner, speeds = self.plan.training.inner, self.plan.training.speeds
        pace = sum(speeds.get(name, 1.0) for name in learners) / self.step_s
        return pace * inner.batch * inner.sequence * self.length_s

    @property
    def usual_gap_s(self) -> float:
        """Time between two rounds of undisturbed learners at full speed."""
        training = self.plan.training
        return training.sync_every * self.step_s / training.fragment_count

    def rounds(self) -> Sequence[Event[RoundMerged]]:
        """Rounds that were merged in it."""
        merged = self.history.between(self.start_s, self.end_s, RoundMerged)
        return [one for one in merged if not one.payload.is_restated]


def measures(plan: FaultPlan, history: History) -> Mapping[str, float]:
    """All measures from the end of the baseline to the end of training."""
    start_s = baseline_end_s(history)
    if start_s is None:
        raise PlanError(f"{plan.name} ended before its baseline was measured")
    return measures_of(
        Stretch(history=history, plan=plan, start_s=start_s, end_s=training_end_s(history))
    )


def measures_of(stretch: Stretch) -> Mapping[str, float]:
    """All measures of a part of a run."""
    everyone = stretch.plan.training.learner_names
    slower = stretch.plan.training.speeds
    capacity, rounds = stretch.capacity(everyone), stretch.rounds()
    all_trained, committed = _trained(stretch, None), _committed(stretch)
    free = _free(stretch)
    present = sum(len(one.payload.contributors) for one in rounds) / max(len(rounds), 1)
    return {
        "goodput": all_trained / capacity,
        "goodput_fastest": _goodput(stretch, [name for name in everyone if name not in slower]),
        "committed": committed / capacity,
        "free": free,
        "committed_free": committed / capacity / free if free else 0.0,
        "not_merged": 1 - committed / all_trained if all_trained else 0.0,
        "overwritten": _overwritten(stretch),
        "contributors": present / len(everyone),
        "rounds": len(rounds) * stretch.usual_gap_s / stretch.length_s,
        "uptime": 1 - _stalled_s(stretch) / stretch.length_s,
        "time_to_tokens": _time_to_tokens(stretch),
        "merged_rate": committed / stretch.length_s,
    }


def _goodput(stretch: Stretch, learners: Collection[str]) -> float:
    return _trained(stretch, learners) / stretch.capacity(learners) if learners else 0.0


def _trained(stretch: Stretch, learners: Collection[str] | None) -> float:
    """Tokens trained in it, by these learners or by all, newcomers included."""
    return sum(
        tokens
        for sample, tokens in trained(stretch.history)
        if stretch.start_s < sample.time_s <= stretch.end_s
        and (learners is None or sample.payload.learner in learners)
    )


def _committed(stretch: Stretch) -> float:
    before = 0.0
    for one in stretch.history.of(RoundMerged):
        if one.time_s <= stretch.start_s:
            before = one.payload.committed_tokens
    rounds = stretch.rounds()
    return rounds[-1].payload.committed_tokens - before if rounds else 0.0


def _free(stretch: Stretch) -> float:
    """Share of the time of the learners of the start in which no fault had them."""
    history, everyone = stretch.history, stretch.plan.training.learner_names
    had_s = 0.0
    for name in everyone:
        under = union(
            (story.injected.time_s, story.healed.time_s if story.healed else stretch.end_s)
            for story in history.faults
            if story.injected is not None and name in story.targets
        )
        had_s += overlap_s(under, stretch.start_s, stretch.end_s)
    return 1 - had_s / (len(everyone) * stretch.length_s)


def _overwritten(stretch: Stretch) -> float:
    """Share of the trained tokens that an adoption overwrote before they were merged."""
    adopted = stretch.history.between(stretch.start_s, stretch.end_s, LearnerAdopted)
    lost = sum(one.payload.discarded_tokens for one in adopted)
    all_trained = _trained(stretch, None)
    return lost / stretch.plan.training.fragment_count / all_trained if all_trained else 0.0


def _stalled_s(stretch: Stretch) -> float:
    """Excess of the long gaps between rounds over a usual one; long is above three usual ones."""
    usual_s = stretch.usual_gap_s
    times_s = [stretch.start_s, *(one.time_s for one in stretch.rounds()), stretch.end_s]
    gaps = (after - before for before, after in pairwise(times_s))
    return sum(gap - usual_s for gap in gaps if gap > _GAP * usual_s)


def _time_to_tokens(stretch: Stretch) -> float:
    """Time to the tokens of the stop rule, of the time that they take at the baseline's pace.

    0 without such a rule, or if they were not reached.
    """
    wanted = stretch.plan.training.stop.tokens
    per_s = baseline_figure(stretch.history, lambda usual: usual.tokens_per_s)
    if wanted is None or not per_s:
        return 0.0
    before, reached_s = 0.0, None
    for one in stretch.history.of(RoundMerged):
        if one.time_s <= stretch.start_s:
            before = one.payload.committed_tokens
        if one.payload.committed_tokens >= wanted:
            reached_s = one.time_s
            break
    return (reached_s - stretch.start_s) * per_s / (wanted - before) if reached_s else 0.0
