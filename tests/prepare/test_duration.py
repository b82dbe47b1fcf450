"""How long a run will take, from its plan alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from chaoslab.core.protocol import Phase
from chaoslab.core.units import Pacing
from chaoslab.plan.model import (
    HEADROOM,
    Algorithm,
    FaultPlan,
    Injection,
    LearnerGroup,
    Stop,
    Training,
    Trigger,
)
from chaoslab.plan.schedule import Schedule, roster_of, schedule
from chaoslab.prepare import duration
from chaoslab.prepare.duration import guessed_step_s
from chaoslab.prepare.plans import Asked, bundled_plans, decode, measured_s

PACED: Mapping[str, Any] = {"fragments": 6, "sync_every": 24, "step_time": 0.05}
"""Four steps for each round: 0.2 s."""
NOTHING = Schedule(seed=0, injections=())
START_AND_END_S, AFTER_FAULT_S = 3.0, 2.0 + 36 * 0.2
TOOK_S = {plan: took_s for plan, path in bundled_plans().items() if (took_s := measured_s(path))}


def estimated_s(
    training: Training, drawn: Schedule, *, guess_s: float | None = None
) -> float | None:
    """Without the start of the nodes and the end of the run."""
    plan = FaultPlan(name="a", training=training)
    found = duration.estimated_s(plan, drawn, guess_s=guess_s)
    return None if found is None else found - START_AND_END_S


def faults(*whens: Trigger, for_s: float | None = 6.0) -> Schedule:
    return Schedule(
        seed=0,
        injections=tuple(
            Injection(number=number, spec=f"fault-{number}", fault="process.kill", settings=None,
                      targets=("learner-0",), trigger=when, for_s=for_s)
            for number, when in enumerate(whens)
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stop", "seconds"),
    [
        (Stop(rounds=100), 20.0),
        (Stop(steps=1000), 50.0),
        (Stop(time_s=30.0), 30.0),
        (Stop(rounds=100, time_s=30.0), 20.0),
        (Stop(rounds=100, loss=1.5), 20.0),
    ],
)
def test_training_ends_by_the_rule_that_is_reached_first(stop: Stop, seconds: float) -> None:
    assert estimated_s(Training(**PACED, stop=stop), NOTHING) == pytest.approx(seconds)


def test_a_step_time_that_is_measured_or_a_loss_gives_no_estimate() -> None:
    for training in (
        Training(stop=Stop(rounds=100), step_time=Pacing.AUTO),
        Training(**PACED, stop=Stop(loss=1.5)),
    ):
        assert estimated_s(training, NOTHING) is None


@pytest.mark.parametrize("guess_s", [0.0001, 0.1, 1000.0])
def test_a_step_time_that_is_measured_can_be_guessed_as_no_plan_may_say(guess_s: float) -> None:
    training = Training(**{**PACED, "step_time": Pacing.AUTO}, stop=Stop(rounds=100))
    found = estimated_s(training, faults(Trigger(round=200)), guess_s=guess_s)
    follows_s = 2.0 + min(max(6.0, 144 * guess_s), 30.0)
    assert found == pytest.approx(800 * guess_s + 6.0 + follows_s)


def test_the_guess_of_a_step_grows_with_learners_on_a_core_and_with_the_model() -> None:
    def guess(cores: int | None, **others: Any) -> float:
        found = guessed_step_s(Training(**{"step_time": Pacing.OFF, **others}), cores)
        assert found is not None
        return found

    assert guess(2, learners=8) == pytest.approx(2 * guess(2, learners=4))
    assert guess(8, learners=4) == guess(4, learners=4)
    assert guess(None, learners=8) == guess(None, learners=4)
    assert guess(2, model="micro") > 5 * guess(2)
    assert guess(2, step_time=Pacing.AUTO) == pytest.approx(HEADROOM * guess(2))


def test_nobody_guesses_the_step_of_a_task_or_one_that_the_plan_gives() -> None:
    assert guessed_step_s(Training(**PACED), 2) is None
    assert guessed_step_s(Training(task="package.module:make"), 2) is None


def test_a_time_is_known_without_a_step_time() -> None:
    training = Training(stop=Stop(time_s=30.0), step_time=Pacing.AUTO)
    assert estimated_s(training, faults(Trigger(round=10_000))) == 30.0


@pytest.mark.parametrize(
    ("whens", "seconds"),
    [
        ((Trigger(time_s=50.0),), 56.0 + AFTER_FAULT_S),
        ((Trigger(round=200),), 46.0 + AFTER_FAULT_S),
        ((Trigger(phase=Phase.WRITTEN, after_round=200),), 46.0 + AFTER_FAULT_S),
        ((Trigger(step=1000),), 56.0 + AFTER_FAULT_S),
        ((Trigger(time_s=50.0), Trigger(after="fault-0", offset_s=3.0)), 65.0 + AFTER_FAULT_S),
        ((Trigger(time_s=1.0),), 20.0),
        ((Trigger(loss=1.0), Trigger(after="fault-0")), 20.0),
    ],
)
def test_a_run_goes_on_until_its_last_fault_is_over_and_judged(
    whens: tuple[Trigger, ...], seconds: float
) -> None:
    training = Training(**PACED, stop=Stop(rounds=100))
    assert estimated_s(training, faults(*whens)) == pytest.approx(seconds)


def test_a_fault_without_an_end_lasts_no_longer_than_training() -> None:
    training = Training(**PACED, stop=Stop(rounds=100))
    assert estimated_s(training, faults(Trigger(time_s=5.0), for_s=None)) == pytest.approx(20.0)


@pytest.mark.parametrize("name", TOOK_S)
def test_the_estimate_of_an_included_plan_is_near_to_what_it_takes(name: str) -> None:
    plan, _ = decode(Asked(plan=name))
    guess_s = guessed_step_s(plan.training, cores=2)
    found = duration.estimated_s(plan, schedule(plan, roster_of(plan)), guess_s=guess_s)
    assert found == pytest.approx(TOOK_S[name], rel=0.25)


def test_rounds_that_wait_for_all_have_the_pace_of_the_slowest() -> None:
    groups = (LearnerGroup(count=3), LearnerGroup(count=1, speed=0.5))
    training = Training(**PACED, learners=groups, stop=Stop(rounds=100), quorum=4,
                        algorithm=Algorithm.STREAMING)  # fmt: skip
    assert estimated_s(training, NOTHING) == pytest.approx(40.0)
