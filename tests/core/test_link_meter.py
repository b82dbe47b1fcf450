"""What a link's end measures: round trips, bytes, rates and silence, window by window."""

import pytest

from chaoslab.core.link_meter import NOTHING_QUEUED, Meter, PayloadTimer, Periodic, Reading
from chaoslab.core.payloads import LifeFields, LinkMeasured


class Time:
    """A clock that stays the same until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def said(reading: Reading) -> LinkMeasured:
    """How a learner reports it."""
    whose: LifeFields = {"learner": "learner-0", "incarnation": 1}
    return LinkMeasured.of(reading, whose, direction="down", queued=NOTHING_QUEUED)


@pytest.fixture
def time() -> Time:
    return Time()


def test_bytes_go_on_being_counted_while_windows_come_and_go(time: Time) -> None:
    meter = Meter(time)
    meter.arrived(time(), 100)
    time.now_s += 1
    assert meter.read().bytes == 100
    meter.arrived(time(), 20)
    time.now_s += 0.5
    reading = meter.read()
    assert (reading.bytes, reading.window_s) == (120, 0.5)


def test_silence_begins_with_the_last_arrival_and_outlasts_windows(time: Time) -> None:
    meter = Meter(time)
    time.now_s += 1
    meter.arrived(time(), 10)
    for waited_s in (1.0, 2.0, 3.0):
        time.now_s += 1
        assert meter.read().silent_s == waited_s
    meter.arrived(time(), 10)
    assert meter.read().silent_s == 0


def test_round_trips_are_those_of_the_window(time: Time) -> None:
    meter = Meter(time)
    for rtt_s in (0.3, 0.1, 0.2):
        meter.pinged()
        meter.answered(rtt_s)
    meter.pinged()
    data = said(meter.read())
    assert (data.rtt_s, data.rtt_s_min) == (0.2, 0.1)
    assert (data.pings_sent, data.pings_answered) == (4, 3)
    data = said(meter.read())
    assert (data.rtt_s, data.rtt_s_min, data.pings_sent) == (None, None, 0)


def test_round_trips_beside_the_stream_are_told_apart(time: Time) -> None:
    meter = Meter(time)
    meter.answered(3.0)
    for rtt_s in (0.3, 0.1, 0.2):
        meter.probed(rtt_s)
    data = said(meter.read())
    assert (data.probe_rtt_s, data.probe_rtt_s_min, data.probes_answered) == (0.2, 0.1, 3)
    assert data.rtt_s == 3.0
    assert said(meter.read()).probe_rtt_s is None


def test_a_meter_that_nobody_reads_stays_small(time: Time) -> None:
    meter = Meter(time)
    for _ in range(10_000):
        meter.answered(0.1)
    assert len(meter.read().rtts_s) < 1000


def arrive(timer: PayloadTimer, time: Time, sizes: list[int], every_s: float, total: int) -> None:
    """A header, then chunks of these sizes, `every_s` apart."""
    filled = 0
    timer.frame(20, filled=0, completed=0)
    for size in sizes:
        time.now_s += every_s
        filled += size
        is_last = filled == total
        timer.frame(
            size + 10, filled=None if is_last else filled, completed=total if is_last else 0
        )


def test_a_rate_is_told_from_the_announcement_of_a_payload_on(time: Time) -> None:
    meter = Meter(time)
    arrive(PayloadTimer(meter), time, [400, 400, 200], 0.1, 1000)
    reading = meter.read()
    assert reading.bytes_per_s == pytest.approx(1000 / 0.3)
    assert (reading.payload_bytes, reading.bytes) == (1000, 20 + 1030)
    data = said(reading)
    assert (data.timed_bytes, data.timed_s) == (1000, pytest.approx(0.3))


@pytest.mark.parametrize(
    ("frames", "bytes_per_s"),
    [
        ([(0, 510, 500, 0), (1, 30, 500, 0), (1, 510, None, 1000)], 250),
        ([(60, 20, 0, 0), (0.25, 510, 500, 0), (0.25, 510, None, 1000)] * 3, 2000),
    ],
    ids=["messages between the chunks", "pauses between payloads"],
)
def test_only_the_chunks_of_a_payload_and_their_time_count(
    time: Time, frames: list[tuple[float, int, int | None, int]], bytes_per_s: float
) -> None:
    meter = Meter(time)
    timer = PayloadTimer(meter)
    for after_s, size, filled, completed in frames:
        time.now_s += after_s
        timer.frame(size, filled=filled, completed=completed)
    assert meter.read().bytes_per_s == pytest.approx(bytes_per_s)


def test_a_payload_that_takes_longer_than_a_window_is_timed_in_each(time: Time) -> None:
    meter = Meter(time)
    timer = PayloadTimer(meter)
    timer.frame(110, filled=100, completed=0)
    for filled in (200, 300):
        time.now_s += 2
        timer.frame(110, filled=filled, completed=0)
        reading = meter.read()
        assert (reading.bytes_per_s, reading.payload_bytes) == (50, 0)


def test_a_payload_that_broke_off_leaves_nothing_behind_for_the_next_stream(time: Time) -> None:
    meter = Meter(time)
    PayloadTimer(meter).frame(510, filled=500, completed=0)
    time.now_s += 50
    arrive(PayloadTimer(meter), time, [500, 500], 0.1, 1000)
    assert meter.read().bytes_per_s == pytest.approx(5000)


def test_a_period_that_was_missed_is_not_made_up_for() -> None:
    every = Periodic(1.0, 0.0)
    assert [every.is_due(now_s) for now_s in (0.5, 1.0, 1.1, 2.0)] == [False, True, False, True]
    assert every.is_due(10.0)
    assert not every.is_due(10.4)
    assert every.is_due(10.5)
