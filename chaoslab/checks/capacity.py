"""Capacity of each learner by itself, and how much of it faults took without taking it away.

    baseline: learner-0 ▇▇▇▇ learner-1 ▇▇▇▇ learner-2 ▇▇▇ (an older chip)   shares of the pace
    slowed:   learner-1 ▇▇ while injection-0 was open                        its evidence says 2.0x

What a fault on a chip took is what its own evidence measured on the victim: what the others lost
meanwhile is not excused by it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaoslab.checks.timeline import fault_windows
from chaoslab.core.events import Event
from chaoslab.core.payloads import BaselineMeasured, Status
from chaoslab.record.history import FaultStory, History


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """One learner that an injection slowed without taking it away."""

    learner: str
    start_s: float
    end_s: float
    ratio: float
    """Step time by its own before."""
    evidence: Event

    @property
    def lost_share(self) -> float:
        """Lost share of its own pace."""
        return max(0.0, 1 - 1 / self.ratio)


def pace_shares(history: History) -> Mapping[str, float]:
    """Share of each initial learner in all steps of the baseline; equal without step times.

    The shares are about 1 each, so that they add up to the number of learners.
    """
    measured = history.last(BaselineMeasured)
    step_s = measured.payload.step_s if measured else {}
    paces = {}
    for learner in history.founders:
        own_s = step_s.get(learner)
        if own_s is None or own_s <= 0:
            return dict.fromkeys(history.founders, 1.0)
        paces[learner] = 1 / own_s
    whole = sum(paces.values())
    return {learner: len(paces) * pace / whole for learner, pace in paces.items()}


def slowdown(story: FaultStory, target: str) -> float | None:
    """Factor by which steps of a target took longer, by the evidence; None without evidence."""
    for seen in story.evidence:
        if seen.payload.target == target and seen.payload.status is not Status.FAILED:
            ratio = seen.payload.measured.get("step_ratio", 1.0)
            return max(1.0, float(ratio)) if isinstance(ratio, int | float) else None
    return None


def slowed(history: History) -> Iterator[Slowed]:
    """Every learner that evidence shows to have been slowed, injection by injection."""
    for window in fault_windows(history):
        for seen in () if window.story.takes_away else window.story.evidence:
            ratio = slowdown(window.story, seen.payload.target)
            if ratio is not None and ratio > 1:
                yield Slowed(
                    learner=seen.payload.target,
                    start_s=window.start_s,
                    end_s=window.end_s,
                    ratio=ratio,
                    evidence=seen,
                )
