"""Pauses of the learners of a scenario, one by one: what `engine` counts, to be looked at.

    Scenario, seed ─► Learner of the engine ─► Pause(learner, from, until), …

They are the pauses of the very learners that `engine.simulate` counts with the same seed. Outages
of domains and traces hit several learners at once and are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chaoslab.core.errors import PlanError
from chaoslab.plan.schedule.chance import stream
from chaoslab.sim.renewal.learner import Learner
from chaoslab.sim.renewal.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A time in which a learner does not train."""

    learner: int
    start_s: float
    end_s: float


def pauses(scenario: Scenario, seed: int, *, until_s: float) -> Iterator[Pause]:
    """Pauses that begin before `until_s`, learner by learner, each in the order of time."""
    model = scenario.model
    if model.domains or model.trace:
        raise PlanError(
            f"{scenario.failures} has outages of many chips at once: choose failures of single "
            "chips, such as one_per_year",
            key="failures",
        )
    for number in range(scenario.learners):
        learner = Learner(scenario, model, stream(seed, "learner", str(number)))
        while learner.next_s < until_s:
            start_s = learner.next_s
            end_s = learner.act(start_s)
            if end_s > start_s:
                yield Pause(learner=number, start_s=start_s, end_s=end_s)
