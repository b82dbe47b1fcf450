"""Quantities: what is read, what is printed, and what a refusal teaches."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Relative


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (units.duration_s, "250ms", 0.25), (units.duration_s, "1m30s", 90.0),
        (units.duration_s, "1.5s", 1.5), (units.duration_s, "2d", 172800.0),
        (units.duration_s, "15us", 15e-6), (units.duration_s, "1h0m5s", 3605.0),
        (units.size_bytes, "512B", 512), (units.size_bytes, "1.5GB", 1_500_000_000),
        (units.size_bytes, "64MiB", 64 * 2**20), (units.size_bytes, "1TiB", 2**40),
        (units.rate_bytes_per_s, "2MB/s", 2e6), (units.rate_bytes_per_s, "80mbit", 1e7),
        (units.rate_bytes_per_s, "1bit", 0.125), (units.share, "12.5%", 0.125),
        (units.count, 7, 7), (units.count, "200k", 200_000), (units.count, "1.5B", 1.5e9),
        (units.factor, "1.25x", 1.25), (units.rounds, "1 round", 1), (units.rounds, "2 rounds", 2),
        (units.bound, "2s", 2.0), (units.bound, "3x baseline", Relative(factor=3.0)),
        (units.limit, "8.5", 8.5), (units.limit, "off", float("inf")),
    ],
)  # fmt: skip
def test_a_quantity_is_read_in_its_unit(
    read: Callable[[str | int], object], text: str | int, value: object
) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "right"),
    [
        (units.duration_s, "30", "30s"), (units.duration_s, "30 s", "30s"),
        (units.duration_s, "5MS", "5ms"), (units.duration_s, "soon", "1m30s"),
        (units.duration_s, "1s1m", ""), (units.duration_s, "1s1s", ""),
        (units.duration_s, "-3s", "30s"), (units.duration_s, "", "30s"),
        (units.duration_s, "1h30", "1m30s"), (units.duration_s, "٣s", "30s"),
        (units.size_bytes, "64", "64MiB"), (units.size_bytes, "64mib", "64MiB"),
        (units.size_bytes, "0.3B", ""), (units.size_bytes, "1 GB", "1GB"),
        (units.rate_bytes_per_s, "2MB", "2MB/s"), (units.rate_bytes_per_s, "80Mbit", "80mbit"),
        (units.rate_bytes_per_s, "5", "5MB/s"), (units.share, "0.5", "50%"),
        (units.share, "half", "50%"), (units.count, "5e6", "5M"), (units.count, "2m", ""),
        (units.count, "1.0005k", ""), (units.count, "1.5", ""), (units.count, True, ""),
        (units.count, -3, ""), (units.factor, "1.25", "1.25x"), (units.rounds, "12", "12 rounds"),
        (units.bound, "3x", "3x baseline"), (units.bound, "3", "2s"), (units.limit, "none", "off"),
    ],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_what_would_be(
    read: Callable[[str | int], object], text: str | int, right: str
) -> None:
    with pytest.raises(PlanError) as refused:
        read(text)
    assert str(text) in str(refused.value)
    assert right in str(refused.value)


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (units.show_duration, 0.25, "250ms"), (units.show_duration, 75.5, "1m15.5s"),
        (units.show_duration, 3600.0, "1h"), (units.show_duration, 600.0, "10m"),
        (units.show_duration, -0.0, "0s"), (units.show_duration, 86400.0, "24h"),
        (units.SIZE.show, 64 * 2**20, "64MiB"), (units.SIZE.show, 1_500_000_000, "1.5GB"),
        (units.SIZE.show, 1_234_567, "1234567B"), (units.SIZE.show, 0, "0B"),
        (units.RATE.show, 2e6, "2MB/s"), (units.RATE.show, 0.5, "0.5B/s"),
        (units.COUNT.show, 200_000, "200k"), (units.COUNT.show, 1234, "1234"),
        (units.show_share, 0.07, "7%"), (units.BOUND.show, Relative(factor=3.0), "3x baseline"),
        (units.FACTOR.show, 1.25, "1.25x"), (units.LIMIT.show, float("inf"), "off"),
        (units.LIMIT.show, 8.5, "8.5"), (units.elapsed, 0.0, "less than 0.01 s"),
        (units.elapsed, 24.12, "24.1 s"), (units.elapsed, 412.4, "412 s"),
        (units.delay, 0.02, "at once"), (units.delay, 0.3, "after 0.30 s"),
        (lambda n: units.plural(n, "line"), 1, "1 line"),
        (lambda n: units.plural(n, "line"), 1204, "1,204 lines"),
        (lambda n: units.plural(n, "loss was", "losses were"), 2, "2 losses were"),
    ],
)  # fmt: skip
def test_a_quantity_is_printed_as_short_as_is_exact(
    show: Callable[[object], str], value: object, text: str
) -> None:
    assert show(value) == text


AMOUNTS = st.floats(min_value=0, max_value=1e9, allow_subnormal=False)
COUNTS = st.integers(min_value=0, max_value=10**15)


@given(AMOUNTS)
def test_durations_shares_and_factors_are_read_back_exactly(value: float) -> None:
    assert units.duration_s(units.show_duration(value)) == value
    assert units.share(units.show_share(value)) == value
    assert units.factor(units.FACTOR.show(value)) == value
    assert units.bound(units.BOUND.show(value)) == value
    assert units.bound(units.BOUND.show(units.Relative(factor=value))) == units.Relative(
        factor=value
    )


@given(COUNTS)
def test_sizes_rates_and_counts_are_read_back_exactly(number: int) -> None:
    assert units.size_bytes(units.SIZE.show(number)) == number
    assert units.count(units.COUNT.show(number)) == number
    assert units.rounds(units.ROUNDS.show(number)) == number
    assert units.rate_bytes_per_s(units.RATE.show(number)) == number


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_what_is_no_amount_is_not_printed(value: float) -> None:
    with pytest.raises(PlanError):
        units.show_duration(value)


SIGNS = "0123456789.,+-eE_ %x/:\n٣µusmhdkKMGTPiBbtofn rounds baseline inf"


@given(st.text(SIGNS, max_size=12))
def test_every_text_is_read_or_refused_by_a_plan_error(text: str) -> None:
    for quantity in (units.DURATION, units.SIZE, units.RATE, units.SHARE, units.COUNT,
                     units.FACTOR, units.ROUNDS, units.BOUND, units.LIMIT):  # fmt: skip
        with suppress(PlanError):
            quantity.parse(text)
