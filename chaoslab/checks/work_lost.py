"""Work that was thrown away, and how much of the time was effective training.

    life 1   ▇▇▇ merged ▇▇▇ merged ▇▇ killed        lost: its steps after the last that was merged,
    life 2                       resumes ▇▇▇▇       or after the one from which it resumed

Of each membership that ended before training did: its steps since its last merged contribution (the
mean over fragments, as each is merged at its own time), or since the state that its next membership
resumed from. The effective training time ratio (ETTR, as ByteRobust defines it, arXiv 2509.16293)
is productive time over all time: here the steps that were kept, at the step times of the baseline,
over the time of all learners of the start, from the baseline to the end of training.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.duty import duty
from chaoslab.checks.timeline import (
    CHECKPOINT,
    RESUMED,
    baseline_end_s,
    of_learner,
    once,
    parts,
    samples_of,
    training_end_s,
)
from chaoslab.checks.violations import Measured, Violation, conclude, unknown
from chaoslab.core.binding import binding
from chaoslab.core.events import Event
from chaoslab.core.payloads import LearnerJoined, NodeExited, RoundMerged
from chaoslab.core.units import Share, elapsed, plural, show_share
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLost:
    """Work of all learners that faults destroyed, from the baseline to the end."""

    steps: float
    """Steps that were made and then thrown away."""
    seconds: float
    """Time that they took, at the step times of the baseline."""
    share: float
    """Lost share of all steps that were made."""
    effective_share: float
    """Effective training time ratio: 1 for a run in which every learner stepped as in the
    baseline, and nothing was thrown away."""

    def __str__(self) -> str:
        return f"{self.steps:,.0f} steps, {elapsed(self.seconds)}, {self.share:.1%}"


@once
def work_lost(history: History) -> WorkLost | None:
    """Lost work; None without a baseline that measured step times."""
    found, start_s = duty(history), baseline_end_s(history)
    if found is None or start_s is None or not found.has_paces:
        return None
    end_s = training_end_s(history)
    made = {learner: found.steps(learner, start_s, end_s) for learner in history.learners}
    lost = {
        learner: sum(steps for _, steps in _lost(history, learner, start_s))
        for learner in history.learners
    }
    whole_s = (end_s - start_s) * len(history.founders)
    kept_s = sum(
        (made[learner] - lost[learner]) / found.pace(learner) for learner in history.founders
    )
    return WorkLost(
        steps=round(sum(lost.values()), 1),
        seconds=round(sum(steps / found.pace(learner) for learner, steps in lost.items()), 3),
        share=round(min(1.0, sum(lost.values()) / max(1.0, sum(made.values()))), 4),
        effective_share=round(max(0.0, min(1.0, kept_s / whole_s)), 4) if whole_s > 0 else 1.0,
    )


def _lost(history: History, learner: str, start_s: float) -> Iterator[tuple[Event, float]]:
    """The last sample of each membership that ended before training, and the steps that it lost."""
    ends_s = training_end_s(history)
    joins = [e for e in of_learner(history, LearnerJoined, learner) if e.time_s <= ends_s]
    exits = [e.payload.incarnation for e in history.of(NodeExited)
             if e.payload.node == learner and e.time_s < ends_s]  # fmt: skip
    for number, joined in enumerate(joins):
        after = joins[number + 1] if number + 1 < len(joins) else None
        mine = joined.payload
        samples = [
            event
            for event in samples_of(history, learner, mine.epoch)
            if start_s < event.time_s <= ends_s
        ]
        if not samples or (after is None and mine.incarnation not in exits):
            continue
        last = max(event.payload.step for event in samples)
        kept: float = _kept(history, mine)
        if after is not None and after.payload.source == RESUMED:
            kept = max(kept, after.payload.step)
        elif after is not None and after.payload.source == CHECKPOINT:
            kept = after.payload.step
        if last > kept:
            yield samples[-1], last - kept


def _kept(history: History, joined: LearnerJoined) -> float:
    """Steps of a membership up to which its work was merged; the mean over fragments."""
    merged = _last_merged(history).get((joined.learner, joined.epoch), {})
    fragments = _fragments(history)
    return fmean(merged.get(one, joined.step) for one in fragments) if fragments else joined.step


@once
def _fragments(history: History) -> frozenset[int]:
    return frozenset(event.payload.fragment for event in history.of(RoundMerged))


@once
def _last_merged(history: History) -> Mapping[tuple[str, int], Mapping[int, int]]:
    """Steps of each membership that were last merged, by fragment."""
    found: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for part in parts(history):
        one = part.contributor
        found[one.learner, one.epoch][part.merged.payload.fragment] = one.step
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MostLost:
    """Faults destroy at most this much of the work: `{check: work_lost, max_lost: 5%}`."""

    name: ClassVar[str] = "work_lost"
    summary: ClassVar[str] = "steps that were made and thrown away, of all that were made"

    max_lost: Share = binding(0.1, most=0.5, show=show_share)
    """Largest share of the steps of all learners, from the baseline to the end of training."""

    def judge(self, history: History) -> Finding:
        """The share that was lost against the bound; each membership that lost some is named."""
        found, start_s = work_lost(history), baseline_end_s(history)
        if found is None or start_s is None:
            return unknown(self.name, Code.NO_BASELINE, "there was no baseline to compare with")
        lost = [
            (learner, last, steps)
            for learner in history.learners
            for last, steps in _lost(history, learner, start_s)
        ]
        return conclude(
            self.name,
            [
                Violation.at(
                    last,
                    Code.TOO_MUCH_LOST,
                    f"{learner} lost {plural(round(steps), 'step')} at {last.time_s:.1f} s; all "
                    f"lost {found}, and the bound is {self.max_lost:.1%}",
                    learner,
                )
                for learner, last, steps in lost
                if found.share > self.max_lost
            ],
            passed=f"{found} of the work were lost",
            samples=max(1, len(lost)),
            measured=Measured(found.share, self.max_lost, Unit.SHARE, digits=4),
            numbers={
                "lost_steps": found.steps,
                "lost_s": found.seconds,
                "effective_share": found.effective_share,
            },
        )
