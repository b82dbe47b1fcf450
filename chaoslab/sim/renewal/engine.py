"""Engine: the learners of one scenario, and what came of it.

    outages ─► Learner.lose ──┐
               Learner.advance┴─► when each was down, day by day ─► Result

What one learner does depends on no other, so each goes on by itself from outage to outage, and
nothing but outages is put in the order of time. Equal scenarios and seeds give equal results. The
work is that of the failures and changes; the memory is that of a day of them, of the learners and
of what is out of service.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.renewal.failure_models import FailureModel
from chaoslab.sim.renewal.learner import Learner, Times
from chaoslab.sim.renewal.outages import Outage, outages
from chaoslab.sim.renewal.scenario import Scenario

_WINDOW_S: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a scenario with one seed."""

    goodput: float
    """Share of the chip time that went into useful training."""
    uptime: float
    """Share of the time in which at least the quorum of learners trained."""
    interruptions: int
    """Interruptions of single chips."""
    outages: int
    """Outages of domains, or of a trace."""
    changes: int
    """Pauses of learners for changes of their slices, and restarts."""


def simulate(scenario: Scenario, seed: int, *, model: FailureModel | None = None) -> Result:
    """Goodput and uptime over the horizon of a scenario; `model` instead of its own failures."""
    model = model or scenario.model
    horizon_s = scenario.horizon_s
    learners = [
        Learner(scenario, model, stream(seed, "learner", str(i)))
        for i in range(scenario.learners)
    ]  # fmt: skip
    source = outages(scenario, model, seed)
    outage, happened = _next(source, horizon_s), 0
    advanced = time_s = 0.0
    while time_s < horizon_s:
        began_s, time_s = time_s, min(time_s + _WINDOW_S, horizon_s)
        while outage.time_s < time_s:
            happened += 1
            for i, chips in outage.chips:
                learners[i].advance(outage.time_s)
                learners[i].lose(outage.time_s, chips, outage.length_s)
            outage = _next(source, horizon_s)
        for learner in learners:
            learner.advance(time_s)
        went_s, came_s = _downs(learners, time_s)
        advanced += _advanced_s(
            went_s, came_s, too_many=len(learners) - scenario.quorum + 1,
            began_s=began_s, end_s=time_s,
        )  # fmt: skip
    for learner in learners:
        learner.settle(horizon_s)
    return Result(
        goodput=sum(learner.useful_s for learner in learners) / (horizon_s * len(learners)),
        uptime=advanced / horizon_s,
        interruptions=sum(learner.interruptions for learner in learners),
        outages=happened,
        changes=sum(learner.changes for learner in learners),
    )


def _next(source: Iterator[Outage], horizon_s: float) -> Outage:
    """The next outage; one that never comes if there are no more before the horizon."""
    outage = next(source, None)
    return Outage(math.inf, 0.0, ()) if outage is None or outage.time_s >= horizon_s else outage


def _downs(learners: Sequence[Learner], end_s: float) -> tuple[Times, Times]:
    """Times until `end_s` at which any of them went down, and came back, both sorted."""
    taken = [learner.taken_downs(end_s) for learner in learners]
    went_s, came_s = (np.sort(np.concatenate(times_s)) for times_s in zip(*taken, strict=True))
    return went_s, came_s


def _advanced_s(
    went_s: Times, came_s: Times, *, too_many: int, began_s: float, end_s: float
) -> float:
    """Seconds from `began_s` to `end_s` in which fewer than `too_many` were down.

    Both times are sorted, each on its own, and lie in between. Too many are down from the n-th time
    that one goes down to the next one, or to the return that leaves fewer, whichever comes first.
    """
    if went_s.size < too_many:
        return end_s - began_s
    until_s = np.minimum(np.append(went_s[too_many:], end_s), came_s[: went_s.size - too_many + 1])
    return end_s - began_s - float(np.maximum(until_s - went_s[too_many - 1 :], 0.0).sum())
