"""How a learner rests to be slower than its chip."""

from collections.abc import Sequence

import pytest

from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.node.waits import run_now


class Time:
    """A clock that passes only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    async def sleep(self, for_s: float) -> None:
        self.now_s += for_s

    def step(self, pace: Pace, works_s: float = 0.1) -> float:
        """One step; how long it took in all."""
        began_s = self.now_s
        self.now_s += works_s
        run_now(pace.rest(began_s))
        return self.now_s - began_s


@pytest.fixture
def time() -> Time:
    return Time()


def pace_of(time: Time, speed: float = 1.0, step_time_s: float | None = None) -> Pace:
    return Pace(step_time_s=step_time_s, speed=speed, now_s=lambda: time.now_s, sleep=time.sleep)


def test_what_a_step_is_late_for_others_is_no_overrun(time: Time) -> None:
    pace = pace_of(time, step_time_s=0.1)
    time.step(pace)
    began_s = time.now_s
    time.now_s += 0.36  # of which 0.3 were the others'
    run_now(pace.rest(began_s, waited_s=0.3))
    assert (pace.overruns, time.now_s - began_s) == (0, pytest.approx(0.36))
    assert time.step(pace, works_s=0.05) == pytest.approx(0.1)


def test_what_others_took_does_not_excuse_own_work(time: Time) -> None:
    pace = pace_of(time, step_time_s=0.1)
    time.step(pace)
    began_s = time.now_s
    time.now_s += 0.45  # of which 0.1 were the others'
    run_now(pace.rest(began_s, waited_s=0.1))
    assert pace.overruns == 2


@pytest.mark.parametrize(
    ("speed", "factors", "takes_s"),
    [(1.0, [], 0.1), (0.5, [], 0.2), (1.0, [3], 0.3), (0.5, [2], 0.4), (1.0, [3, None], 0.1)],
)
def test_a_step_takes_its_own_time_by_the_speed_and_by_the_factor_of_a_fault(
    time: Time, speed: float, factors: list[int | None], takes_s: float
) -> None:
    pace = pace_of(time, speed)
    for factor in factors:
        pace.apply_slow_hook({"factor": factor} if factor else {})
    assert time.step(pace) == pytest.approx(takes_s)


def test_it_aims_at_its_own_pace_of_before_however_fast_steps_are_now(time: Time) -> None:
    pace = pace_of(time)
    for _ in range(20):
        time.step(pace)
    pace.apply_slow_hook({"factor": 2})
    assert time.step(pace, works_s=0.05) == pytest.approx(0.2)
    assert time.step(pace, works_s=0.5) == pytest.approx(0.5)


def test_who_leaves_does_not_rest_any_more(time: Time) -> None:
    pace = pace_of(time)
    pace.apply_slow_hook({"factor": 100})
    pace.stop_waiting()
    assert time.step(pace) == pytest.approx(0.1)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5])
def test_a_speed_that_no_rest_can_give_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        Pace(speed=speed)


# ---------------------------------------------------------------- with a step time


@pytest.mark.parametrize(
    ("works_s", "ends_s", "overruns"),
    [
        ((0.05, 0.19, 0.1, 0.01), (0.2, 0.4, 0.6, 0.8), 0),
        ((0.3, 0.15, 0.1), (0.3, 0.455, 0.6), 0),
        ((0.75, 0.01), (0.75, 0.8), 2),
    ],
    ids=["in time", "late, and made up for", "two whole periods lost"],
)
def test_steps_end_on_a_grid_and_whole_periods_that_were_lost_are_counted(
    time: Time, works_s: Sequence[float], ends_s: Sequence[float], overruns: int
) -> None:
    pace = pace_of(time, step_time_s=0.2)
    for each_s, end_s in zip(works_s, ends_s, strict=True):
        time.step(pace, works_s=each_s)
        assert time.now_s == pytest.approx(end_s)
        time.now_s += 0.005  # what comes between two steps is part of the period
    assert pace.overruns == overruns


def test_a_slow_group_has_a_longer_period_and_a_fault_multiplies_it(time: Time) -> None:
    pace = pace_of(time, speed=0.5, step_time_s=0.2)
    assert time.step(pace) == pytest.approx(0.4)
    pace.apply_slow_hook({"factor": 3})
    assert pace.period_s == pytest.approx(1.2)
    assert time.step(pace) == pytest.approx(1.2)
    pace.apply_slow_hook({})
    assert time.step(pace) == pytest.approx(0.4)
    assert pace.overruns == 0


def test_a_step_time_that_is_told_holds_until_it_is_taken_back(time: Time) -> None:
    pace = pace_of(time)
    assert time.step(pace) == pytest.approx(0.1)
    pace.apply_pace_hook({"step_s": 0.2})
    assert time.step(pace) == pytest.approx(0.2)
    pace.apply_pace_hook({})
    assert pace.period_s is None
    assert time.step(pace) == pytest.approx(0.1)


def test_a_wait_for_others_begins_the_grid_anew(time: Time) -> None:
    pace = pace_of(time, step_time_s=0.2)
    time.step(pace)
    time.now_s += 5.0
    pace.restart()
    assert time.step(pace) == pytest.approx(0.2)
    assert pace.overruns == 0


@pytest.mark.parametrize("step_time_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_step_time_that_is_no_time_is_refused(time: Time, step_time_s: float) -> None:
    with pytest.raises(ValueError, match="step time"):
        pace_of(time, step_time_s=step_time_s)
    pace = pace_of(time)
    with pytest.raises(ValueError, match="step time"):
        pace.apply_pace_hook({"step_s": step_time_s})
    assert pace.period_s is None
