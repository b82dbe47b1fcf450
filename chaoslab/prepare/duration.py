"""Estimate of a run's length from its plan alone, for a plan that was never run here.

    stop rule, step time ─────────► end of training ──────────────────────┐
    each injection: trigger + `for` ► end of a fault ─► what follows it ───┴─► the latest of them

None if the plan leaves it to the run: a loss, or a measured step time without a guess.
The twin is not counted, nor the work that faults cost, nor compiling in a first run.
"""

from collections.abc import Iterator
from typing import Final

from chaoslab.core.units import Pacing
from chaoslab.plan.model import AFTER_S, HEADROOM, FaultPlan, Injection, Training, Trigger
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.launch import expected_steps
from chaoslab.sim.costs import FLOP, Costs
from chaoslab.sim.model import PARAMETERS

_CORE_FLOPS_PER_S: Final = 2.5e10
"""Speed of a core that processes share: a nano step takes 57 ms while four learners share two, in
the runs of `benchmarks/plans.py`."""
_AROUND_S: Final = 3.0
"""Start of the nodes, evaluation and end, in the same runs."""
_RETURN_S: Final = 2.0
"""From the heal of a fault to the first contribution of its target, in the same runs."""


def guessed_step_s(training: Training, cores: int | None) -> float | None:
    """Estimated seconds of a built-in model's step if all learners share these cores; None if the
    plan says how long it takes, or trains a task.

    `cores`: None if each learner is simulated, on a machine of its own.
    """
    if not isinstance(training.step_time, Pacing) or training.task is not None:
        return None
    parameters, tokens = PARAMETERS[training.model], training.inner.batch * training.inner.sequence
    if cores is None:
        step_s = Costs().step_takes_s(parameters, tokens)
    else:
        work_s = FLOP * parameters * tokens / _CORE_FLOPS_PER_S
        is_kept = training.step_time is Pacing.AUTO  # also with those in reserve
        learners = len(training.roster) if is_kept else training.learner_count
        step_s = work_s * max(1.0, learners / cores)
    return step_s * HEADROOM if training.step_time is Pacing.AUTO else step_s


def estimated_s(
    plan: FaultPlan, schedule: Schedule, *, guess_s: float | None = None
) -> float | None:
    """Seconds from the start of the nodes to the end of the run; None: unknown.

    `guess_s` is what a step takes where the plan does not say it.
    """
    training = plan.training
    step_s = _step_s(training, guess_s)
    training_s = _training_s(training, step_s)
    if training_s is None:
        return None
    rounds_s = _rounds_s(plan.baseline.rounds_after, training, step_s) or 0.0
    after_s = _RETURN_S + min(max(AFTER_S, rounds_s), plan.settle_s)
    ends_s = _fault_ends_s(training, step_s, schedule)
    return _AROUND_S + max([training_s, *(end_s + after_s for end_s in ends_s)])


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
    if trigger.step is not None:
        return None if step_s is None else trigger.step * step_s
    rounds = trigger.after_round if trigger.phase else trigger.round
    return None if rounds is None else _rounds_s(rounds, training, step_s)


def _rounds_s(rounds: int, training: Training, step_s: float | None) -> float | None:
    """Time of rounds in which every learner works."""
    return (
        None if step_s is None else rounds * training.sync_every / training.fragment_count * step_s
    )
