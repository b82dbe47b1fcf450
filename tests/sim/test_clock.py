"""The virtual clock, by its contract, and the order of events."""

import pytest

from chaoslab.core.clock import Clock, WallClock
from chaoslab.sim.clock import EventQueue, Livelock, Priority, SimClock
from tests.contracts.clock_kit import ClockKit


class TestSimClock(ClockKit):
    """The kit."""

    @pytest.fixture
    def clock(self) -> SimClock:
        return SimClock()

    def move(self, clock: Clock, seconds: float) -> None:
        clock.sleep_until(clock.now_s() + seconds)


def test_events_happen_by_time_then_by_priority_then_in_the_order_of_asking() -> None:
    queue, seen = EventQueue(SimClock()), list[str]()
    queue.at(2.0, lambda: seen.append("late"))
    queue.at(1.0, lambda: seen.append("deadline"), Priority.DEADLINE)
    queue.at(1.0, lambda: seen.append("work"))
    queue.at(1.0, lambda: seen.append("more work"))
    queue.at(1.0, lambda: seen.append("arrival"), Priority.ARRIVAL)
    while queue.next_s < 10:
        queue.run_next()
    assert seen == ["arrival", "work", "more work", "deadline", "late"]
    assert queue.now_s == 2.0


def test_with_a_speed_the_machine_has_to_catch_up_and_without_one_it_has_not() -> None:
    real = WallClock()
    fast, free = SimClock(speed=100.0), SimClock()
    for clock in (free, fast):
        clock.sleep_until(3600.0 if clock is free else 5.0)
        clock.keep_pace()
    assert 0.05 <= real.now_s() < 3600.0
    assert (free.now_s(), fast.now_s()) == (3600.0, 5.0)


def test_what_is_cancelled_does_not_happen() -> None:
    queue, seen = EventQueue(SimClock()), list[str]()
    queue.at(1.0, lambda: seen.append("never")).cancel()
    assert queue.next_s == float("inf")
    assert seen == []


def test_catching_up_lets_everything_happen_that_is_due() -> None:
    clock = SimClock()
    queue, seen = EventQueue(clock), list[float]()
    queue.at(1.0, lambda: seen.append(1.0))
    queue.at(3.0, lambda: seen.append(3.0))
    clock.sleep_until(2.0)
    queue.catch_up()
    assert seen == [1.0]
    assert clock.now_s() == 2.0


@pytest.mark.parametrize("delay_s", [0.0, 1e-5])
def test_time_that_does_not_go_on_is_an_error(
    delay_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.sim.clock.EVENTS_MOST", 1000)
    queue = EventQueue(SimClock())

    def again() -> None:
        queue.after(delay_s, again)

    def run_on() -> None:
        for _ in range(1002):
            queue.run_next()

    again()
    with pytest.raises(Livelock):
        run_on()


def test_many_events_over_a_long_time_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaoslab.sim.clock.EVENTS_MOST", 10)
    queue = EventQueue(SimClock())
    for number in range(1000):
        queue.at(number / 10, lambda: None)
    while queue.next_s < 200:
        queue.run_next()
    assert queue.now_s == pytest.approx(99.9)
