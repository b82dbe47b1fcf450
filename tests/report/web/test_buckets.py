"""Curves of bounded size."""

import math

import pytest

from chaoslab.report.web.buckets import Curve, Grid, Marks, Total, digits, together


def test_buckets_widen_so_that_there_are_never_more_than_asked_for() -> None:
    grid = Grid(8)
    curve = Curve(grid)
    for second in range(1000):
        curve.add(float(second), 1.0)
    assert grid.count <= 8
    assert grid.width_s * grid.count >= 1000
    assert len(curve.buckets) == grid.count


def test_a_peak_stays_however_long_the_run_goes_on() -> None:
    curve = Curve(Grid(16))
    for tenth in range(36_000):
        curve.add(tenth / 10, 500.0 if tenth == 777 else 50.0)
    said = curve.range_json()
    assert said["high"][0] == 500
    assert set(said["low"]) == {50}
    assert set(said["high"][1:]) == {50}


def test_curves_together_have_the_mean_of_all_samples() -> None:
    grid = Grid(4)
    one, other = Curve(grid), Curve(grid)
    for value in (1.0, 2.0):
        one.add(0.0, value)
    other.add(0.0, 6.0)
    assert together([one, other]) == {"low": [1], "high": [6], "mean": [3]}
    other.add(900.0, 2.0)
    assert set(one.buckets) == {0}, "the grid widens for both"
    assert len(together([one, other])["mean"]) == grid.count
    assert together([Curve(grid)]) == {}


def test_a_bucket_without_finite_samples_is_null() -> None:
    curve = Curve(Grid(8))
    for time_s, value in ((0.0, 1.0), (0.3, math.nan), (0.3, math.inf), (0.6, 2.0)):
        curve.add(time_s, value)
    assert curve.range_json()["low"] == [1, None, 2]


def test_a_rate_is_the_sum_over_the_time_around_and_survives_widening() -> None:
    grid = Grid(64)
    total = Total(grid)
    for tenth in range(1000):
        total.add(tenth / 10, 20.0)
    rates = total.rates(over_s=10.0)
    assert all(abs(rate - 200) < 5 for rate in rates[:-1])
    grid.bucket(500.0)
    assert len(total.rates(over_s=10.0)) < grid.count, "no rate where nothing was added any more"


def test_marks_are_stretches_of_buckets_from_the_beginning_of_the_run() -> None:
    marks = Marks(Grid(100))
    for time_s in (-0.01, 0.3, 0.6, 2.0):
        marks.add(time_s)
    assert marks.to_json() == [0, 3, 8, 1]


@pytest.mark.parametrize(
    ("value", "short"),
    [(75854.8, 75850), (0.0123456, 0.01235), (0.0, 0), (2.0, 2), (-1.23456, -1.235)],
)
def test_numbers_are_as_short_as_a_drawing_needs(value: float, short: float) -> None:
    assert digits(value) == short
