"""Curves of bounded size."""

import math

import pytest

from chaoslab.report.samples import bucket_s, digits, ranges, rates, stretches, thinned


def test_buckets_are_so_wide_that_there_are_never_more_than_asked_for() -> None:
    for end_s in (0.0, 1.9, 2.0, 999.0):
        assert int(end_s / bucket_s(end_s, 8)) < 8
    assert bucket_s(1.9, 8) == 0.25


def test_a_peak_stays_however_long_the_run_goes_on() -> None:
    samples = [(float(second), 500.0 if second == 77 else 50.0) for second in range(3600)]
    said = ranges([samples], bucket_s(3600, 16))
    assert said["high"][0] == 500
    assert set(said["low"]) == {50}
    assert set(said["high"][1:]) == {50}


def test_curves_together_have_the_mean_of_all_samples() -> None:
    one, other = [(0.0, 1.0), (0.0, 2.0)], [(0.0, 6.0)]
    found = ranges([one, other], 1.0, has_mean=True)
    assert found == {"low": [1], "high": [6], "mean": [3]}
    assert ranges([[]], 1.0) == {}


def test_a_bucket_without_finite_samples_is_null() -> None:
    samples = [(0.0, 1.0), (0.3, math.nan), (0.3, math.inf), (0.6, 2.0)]
    assert ranges([samples], 0.25)["low"] == [1, None, 2]


def test_a_rate_is_the_sum_over_the_time_around_up_to_the_last_addition() -> None:
    found = rates([(tenth / 10, 20.0) for tenth in range(1000)], 2.0, over_s=10.0)
    assert len(found) == 50
    assert all(abs(rate - 200) < 5 for rate in found)


def test_stretches_are_of_buckets_from_the_beginning_of_the_run() -> None:
    assert stretches([-0.01, 0.3, 0.6, 2.0], 0.25) == [0, 3, 8, 1]


def test_thinned_samples_keep_every_peak_and_dip_and_their_order() -> None:
    samples = [(float(at), float(at % 7)) for at in range(1000)]
    samples[500], samples[700] = (500.0, 99.0), (700.0, -99.0)
    kept = thinned(samples, 50)
    assert len(kept) <= 50
    assert {(500.0, 99.0), (700.0, -99.0)} <= set(kept)
    assert list(kept) == sorted(kept)
    assert thinned(samples[:50], 50) == samples[:50]


@pytest.mark.parametrize(
    ("value", "short"),
    [(75854.8, 75850), (0.0123456, 0.01235), (0.0, 0), (2.0, 2), (-1.23456, -1.235)],
)
def test_numbers_are_as_short_as_a_drawing_needs(value: float, short: float) -> None:
    assert digits(value) == short
