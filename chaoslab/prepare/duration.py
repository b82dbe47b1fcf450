"""Estimate of a run's length from its plan alone, for a plan that was never run here.

    stop rule, step time ─────────► end of training ─┐
    each injection: trigger + `for` ► end of a fault ─┴─► the latest of them

None if the plan leaves it to the run: a loss, or a measured step time without a guess.
Starting the nodes, settling and the twin are not counted, nor what faults cost.
"""

from collections.abc import Iterator
from typing import Final

from chaoslab.core.units import Pacing
from chaoslab.plan.model import HEADROOM, Injection, Training, Trigger
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.launch import expected_steps
from chaoslab.sim.costs import Costs
from chaoslab.sim.model import PARAMETERS

_SHARED_BY: Final = 2.0
"""Learners for each core in the run from which the default costs of a simulation come."""


def guessed_step_s(training: Training, cores: int) -> float | None:
    """Estimated seconds of a built-in model's step if all learners share these cores; None if the
    plan says how long it takes, or trains a task.
    """
    if not isinstance(training.step_time, Pacing) or training.task is not None:
        return None
    tokens = training.inner.batch * training.inner.sequence
    work_s = Costs().step_takes_s(PARAMETERS[training.model], tokens) / _SHARED_BY
    step_s = work_s * max(1.0, training.learner_count / cores)
    return step_s * HEADROOM if training.step_time is Pacing.AUTO else step_s


def estimated_s(
    training: Training, schedule: Schedule, *, guess_s: float | None = None
) -> float | None:
    """Seconds from the first step to the end of training and of the last fault; None: unknown.

    `guess_s` is what a step takes where the plan does not say it.
    """
    step_s = _step_s(training, guess_s)
    training_s = _training_s(training, step_s)
    if training_s is None:
        return None
    return max([training_s, *_fault_ends_s(training, step_s, schedule)])


def _training_s(training: Training, step_s: float | None) -> float | None:
    """Training time by the stop rule that is reached first, of those with a known time."""
    steps = expected_steps(training)
    by_steps_s = None if steps is None or step_s is None else steps * step_s
    known_s = [s for s in (training.stop.time_s, by_steps_s) if s is not None]
    return min(known_s, default=None)


def _step_s(training: Training, guess_s: float | None) -> float | None:
    """Step time of the learners that rounds wait for. A guess may be longer than plans may say."""
    step_s = guess_s if isinstance(training.step_time, Pacing) else training.step_time
    if step_s is None:
        return None
    slowest = min(training.speeds.values(), default=1.0) if training.is_blocking else 1.0
    return step_s / slowest


def _fault_ends_s(training: Training, step_s: float | None, schedule: Schedule) -> Iterator[float]:
    """Ends of the injections with a known time."""
    ends_s: dict[str, float] = {}
    for one in schedule.injections:
        begin_s = _begin_s(one, training, step_s, ends_s)
        if begin_s is not None:
            ends_s[one.spec] = max(ends_s.get(one.spec, 0.0), begin_s + (one.for_s or 0.0))
            yield ends_s[one.spec]


def _begin_s(
    one: Injection, training: Training, step_s: float | None, ends_s: dict[str, float]
) -> float | None:
    trigger: Trigger = one.trigger
    if trigger.time_s is not None:
        return trigger.time_s
    if trigger.after is not None:
        end_s = ends_s.get(trigger.after)
        return None if end_s is None else end_s + trigger.offset_s
    steps = trigger.step
    if trigger.round is not None:
        fragments = training.fragment_count
        steps = trigger.round * training.sync_every // fragments
    return None if steps is None or step_s is None else steps * step_s
