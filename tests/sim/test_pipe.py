"""One direction of a simulated link: its queue, its rate, its delay, and what faults do to them."""

import pytest

from chaoslab.links.effects import Bandwidth, Blackhole, Freeze, Latency, LimitData
from chaoslab.sim.chance import Chance
from chaoslab.sim.clock import EventQueue, SimClock
from chaoslab.sim.pipe import Packet, Pipe

RATE = 1000.0
LATENCY_S = 0.1


class Ends:
    """A pipe, and when each of its packets arrived."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.agenda = EventQueue(self.clock)
        self.pipe = Pipe(self.agenda, Chance("test"), latency_s=LATENCY_S, rate_bytes_per_s=RATE)
        self.arrived: list[tuple[str, float]] = []

    def send(self, name: str, size_bytes: int, *, is_bulk: bool = False) -> None:
        def arrive(_: Packet) -> None:
            self.arrived.append((name, round(self.clock.now_s(), 6)))

        self.pipe.send(size_bytes, arrive, is_bulk=is_bulk)

    def run(self) -> None:
        """Until nothing is on its way any more."""
        while self.agenda.next_s < 1000:
            self.agenda.run_next()

    def run_until(self, time_s: float) -> None:
        self.clock.sleep_until(time_s)
        self.agenda.catch_up()


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_packets_wait_for_each_other_and_then_for_the_latency(ends: Ends) -> None:
    ends.send("first", 500)
    ends.send("second", 500)
    ends.run()
    assert ends.arrived == [("first", 0.6), ("second", 1.1)]


def test_others_pass_what_is_bulk_and_take_its_time(ends: Ends) -> None:
    ends.send("checkpoint", 1000, is_bulk=True)
    ends.send("another", 100, is_bulk=True)
    ends.run_until(0.5)
    ends.send("push", 100)
    ends.send("next", 100)
    ends.run()
    assert ends.arrived == [("push", 0.7), ("next", 0.8), ("checkpoint", 1.3), ("another", 1.4)]


def test_a_lower_rate_counts_for_what_has_not_passed_yet(ends: Ends) -> None:
    ends.send("half", 1000)
    ends.run_until(0.5)
    ends.pipe.shape("injection-0", Bandwidth(rate_bytes_per_s=100.0))
    ends.run()
    assert ends.arrived == [("half", 5.6)]  # 0.5 s, then 500 B at 100 B/s, then the latency


def test_the_least_of_two_rates_counts_and_each_heals_alone(ends: Ends) -> None:
    ends.pipe.shape("injection-0", Bandwidth(rate_bytes_per_s=200.0))
    ends.pipe.shape("injection-1", Bandwidth(rate_bytes_per_s=100.0))
    assert ends.pipe.rate_bytes_per_s == 100.0
    ends.pipe.clear("injection-1")
    assert ends.pipe.rate_bytes_per_s == 200.0
    ends.pipe.clear("injection-0")
    assert ends.pipe.rate_bytes_per_s == RATE


def test_latencies_add_up(ends: Ends) -> None:
    ends.pipe.shape("injection-0", Latency(mean_s=0.2))
    ends.pipe.shape("injection-1", Latency(mean_s=0.3))
    assert ends.pipe.delay_s() == pytest.approx(LATENCY_S + 0.5)


def test_a_frozen_pipe_keeps_everything_and_goes_on(ends: Ends) -> None:
    ends.send("before", 500)
    ends.run_until(0.25)
    ends.pipe.shape("injection-0", Freeze())
    ends.send("meanwhile", 500)
    ends.run_until(5.0)
    assert ends.arrived == []
    assert ends.pipe.delay_s() is None
    ends.pipe.clear("injection-0")
    ends.run()
    assert ends.arrived == [("before", 5.35), ("meanwhile", 5.85)]


def test_a_black_hole_loses_what_is_on_its_way_and_what_comes(ends: Ends) -> None:
    ends.send("before", 500)
    ends.pipe.shape("injection-0", Blackhole())
    ends.send("meanwhile", 500)
    assert ends.pipe.clear("injection-0")
    ends.send("after", 500)
    ends.run()
    assert [name for name, _ in ends.arrived] == ["after"]


def test_a_limit_of_data_is_reached_once_for_each_time_that_so_much_was_carried(ends: Ends) -> None:
    ends.send("before", 500)
    ends.run()
    ends.pipe.shape("injection-0", LimitData(size_bytes=500))
    assert not ends.pipe.take_limit()
    ends.send("last", 500)
    ends.run()
    assert ends.pipe.take_limit()
    assert not ends.pipe.take_limit()


def test_what_comes_after_a_loss_does_not_wait_for_what_was_lost(ends: Ends) -> None:
    ends.send("lost", 100_000)
    ends.pipe.drop()
    ends.send("after", 500)
    ends.run()
    assert ends.arrived == [("after", 0.6)]
