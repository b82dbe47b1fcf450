"""How a learner rests to be slower than its chip."""

import pytest

from chaoslab.diloco.learner.pace import Pace


class Time:
    """A clock that passes only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def sleep(self, for_s: float) -> None:
        self.now_s += for_s

    def step(self, pace: Pace, works_s: float = 0.1) -> float:
        """One step; how long it took in all."""
        began_s = self.now_s
        self.now_s += works_s
        pace.rest(began_s)
        return self.now_s - began_s


@pytest.fixture
def time() -> Time:
    return Time()


def pace_of(time: Time, speed: float = 1.0) -> Pace:
    return Pace(speed=speed, now=lambda: time.now_s, sleep=time.sleep)


def test_a_learner_at_its_own_speed_never_rests(time: Time) -> None:
    assert time.step(pace_of(time)) == pytest.approx(0.1)


def test_a_group_of_half_the_speed_takes_twice_as_long_from_the_first_step(time: Time) -> None:
    assert time.step(pace_of(time, speed=0.5)) == pytest.approx(0.2)


def test_a_slowed_learner_takes_the_factor_times_its_own_step(time: Time) -> None:
    pace = pace_of(time)
    pace.apply_hook({"factor": 3})
    assert time.step(pace) == pytest.approx(0.3)


def test_it_aims_at_its_own_pace_of_before_however_fast_steps_are_now(time: Time) -> None:
    pace = pace_of(time)
    for _ in range(20):
        time.step(pace)
    pace.apply_hook({"factor": 2})
    assert time.step(pace, works_s=0.05) == pytest.approx(0.2)
    assert time.step(pace, works_s=0.5) == pytest.approx(0.5)


def test_a_slow_group_is_slowed_by_a_fault_on_top_of_it(time: Time) -> None:
    pace = pace_of(time, speed=0.5)
    time.step(pace)
    pace.apply_hook({"factor": 2})
    assert time.step(pace) == pytest.approx(0.4)


def test_let_go_it_is_as_fast_as_before(time: Time) -> None:
    pace = pace_of(time)
    pace.apply_hook({"factor": 3})
    pace.apply_hook({})
    assert time.step(pace) == pytest.approx(0.1)


def test_who_leaves_does_not_rest_any_more(time: Time) -> None:
    pace = pace_of(time)
    pace.apply_hook({"factor": 100})
    pace.hurry()
    assert time.step(pace) == pytest.approx(0.1)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1.5])
def test_a_speed_that_no_rest_can_give_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        Pace(speed=speed)
