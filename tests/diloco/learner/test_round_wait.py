"""When a synchronous learner waits for a round, and what it says of it."""

from chaoslab.diloco.learner.counters import Counters, FragmentCounters
from chaoslab.diloco.learner.round_wait import RoundWait


def counters(*c_steps: int, step: int = 1000) -> Counters:
    return Counters(
        step=step,
        fragments=tuple(FragmentCounters(version=1, steps_from=step - made) for made in c_steps),
    )


def test_a_learner_waits_for_the_fragment_that_reached_the_limit_and_never_without_one() -> None:
    wait = RoundWait(lambda *_: None)
    assert not wait.is_needed(counters(1000, 3))
    wait.limit = 26
    assert not wait.is_needed(counters(25, 3))
    assert wait.is_needed(counters(3, 26))
    assert counters(3, 26).oldest == 1


def test_a_wait_is_told_every_quarter_of_a_second_and_counted_once() -> None:
    told: list[tuple[int, float]] = []
    wait = RoundWait(lambda held, seconds: told.append((held.step, seconds)))
    for _ in range(6):
        wait.add(counters(26), 0.125)
    wait.add(counters(26, step=1001), 0.125)
    assert told == [(1000, 0.25), (1000, 0.5), (1000, 0.75)]
    assert (wait.take_s(), wait.take_s()) == (0.875, 0.0)
