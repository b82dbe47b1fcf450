"""Quantities: what is read, what is printed, and what a refusal teaches."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoslab.core import units
from chaoslab.core.errors import PlanError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25), ("30s", 30.0), ("10m", 600.0), ("1h", 3600.0), ("1m30s", 90.0),
        ("1.5s", 1.5), ("0s", 0.0), ("2d", 172800.0), ("15us", 15e-6), ("1h0m5s", 3605.0),
    ],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert units.duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("30", "write 30s"), ("30 s", "write 30s"), ("5MS", "write 5ms"), ("soon", "1m30s"),
        ("1s1m", "larger ones first"), ("1s1s", "each unit once"), ("-3s", "30s"), ("", "30s"),
        ("1h30", "1m30s"), ("٣s", "30s"),
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_what_would_be(text: str, right: str) -> None:
    with pytest.raises(PlanError, match="is not a duration") as refused:
        units.duration_s(text)
    assert right in str(refused.value)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512B", 512),
        ("1.5GB", 1_500_000_000),
        ("64MiB", 64 * 2**20),
        ("2kB", 2000),
        ("1TiB", 2**40),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert units.size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "right"),
    [("64", "write 64MiB"), ("64mib", "write 64MiB"), ("0.3B", "whole number"), ("1 GB", "1GB")],
)
def test_what_is_no_size_is_refused_with_what_would_be(text: str, right: str) -> None:
    with pytest.raises(PlanError, match=right):
        units.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("2MB/s", 2e6), ("64MiB/s", 64 * 2**20), ("80mbit", 1e7), ("1bit", 0.125), ("1.5kB/s", 1500)],
)
def test_a_rate_is_read_in_bytes_per_second(text: str, rate: float) -> None:
    assert units.rate_bytes_per_s(text) == rate


@pytest.mark.parametrize(
    ("text", "right"), [("2MB", "2MB/s"), ("80Mbit", "80mbit"), ("5", "5MB/s")]
)
def test_what_is_no_rate_is_refused_with_what_would_be(text: str, right: str) -> None:
    with pytest.raises(PlanError, match=right):
        units.rate_bytes_per_s(text)


def test_a_percentage_is_read_as_a_share_of_one() -> None:
    assert [units.share(text) for text in ("50%", "12.5%", "0%", "100%")] == [0.5, 0.125, 0, 1]


@pytest.mark.parametrize(("text", "right"), [("0.5", "50%"), ("50", "50%"), ("half", "50%")])
def test_a_share_without_its_sign_is_refused(text: str, right: str) -> None:
    with pytest.raises(PlanError, match=f"write {right}"):
        units.share(text)


def test_a_count_may_be_a_number_or_carry_a_suffix() -> None:
    read = [units.count(text) for text in (7, "7", "200k", "2M", "1.5B", "1T")]
    assert read == [7, 7, 200_000, 2_000_000, 1_500_000_000, 10**12]


def test_a_count_with_an_exponent_is_refused_with_what_to_write() -> None:
    with pytest.raises(PlanError, match="write 5M"):
        units.count("5e6")


@pytest.mark.parametrize("text", ["2m", "1.0005k", "1.5", "many", True, -3])
def test_what_is_no_count_is_refused(text: str | int) -> None:
    with pytest.raises(PlanError, match="is not a count"):
        units.count(text)


def test_factors_rounds_and_bounds_are_read() -> None:
    assert units.factor("1.25x") == 1.25
    assert units.rounds("12 rounds") == 12
    assert units.rounds("1 round") == 1
    assert units.bound("2s") == 2.0
    assert units.bound("3x baseline") == units.Relative(factor=3.0)


@pytest.mark.parametrize(
    ("parse", "text", "right"),
    [
        (units.factor, "1.25", "write 1.25x"),
        (units.rounds, "12", "write 12 rounds"),
        (units.bound, "3x", "3x baseline"),
        (units.bound, "3", "2s"),
    ],
)
def test_a_bare_number_never_passes_for_a_quantity(
    parse: Callable[[str], object], text: str, right: str
) -> None:
    with pytest.raises(PlanError, match=right):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250ms"), (6.0, "6s"), (90.0, "1m30s"), (3600.0, "1h"), (600.0, "10m"), (0.0, "0s"),
        (75.5, "1m15.5s"), (-0.0, "0s"), (86400.0, "24h"),
    ],
)  # fmt: skip
def test_a_duration_is_printed_the_usual_way(seconds: float, text: str) -> None:
    assert units.show_duration(seconds) == text


def test_sizes_rates_and_counts_are_printed_as_short_as_is_exact() -> None:
    assert [units.SIZE.show(n) for n in (64 * 2**20, 1_500_000_000, 1_234_567, 0)] == [
        "64MiB", "1.5GB", "1234567B", "0B",
    ]  # fmt: skip
    assert [units.RATE.show(rate) for rate in (2e6, 0.5, 1e7)] == ["2MB/s", "0.5B/s", "10MB/s"]
    assert [units.COUNT.show(n) for n in (200_000, 2_000_000, 1234, 0)] == [
        "200k",
        "2M",
        "1234",
        "0",
    ]
    assert [units.show_share(share) for share in (0.5, 0.07, 1.0)] == ["50%", "7%", "100%"]
    assert units.BOUND.show(units.Relative(factor=3.0)) == "3x baseline"
    assert units.FACTOR.show(1.25) == "1.25x"


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
    with pytest.raises(PlanError, match="finite"):
        units.show_duration(value)


SIGNS = "0123456789.,+-eE_ %x/:\n٣µusmhdkKMGTPiBbtofn rounds baseline inf"


@given(st.text(SIGNS, max_size=12))
def test_every_text_is_read_or_refused_by_a_plan_error(text: str) -> None:
    for quantity in (units.DURATION, units.SIZE, units.RATE, units.SHARE, units.COUNT,
                     units.FACTOR, units.ROUNDS, units.BOUND, units.LIMIT):  # fmt: skip
        with suppress(PlanError):
            quantity.parse(text)


def test_no_measured_time_is_rounded_to_zero() -> None:
    assert [units.elapsed(s) for s in (0.0, 0.31, 24.12, 412.4)] == [
        "less than 0.01 s", "0.31 s", "24.1 s", "412 s",
    ]  # fmt: skip


def test_a_delay_that_nobody_sees_is_told_without_a_number() -> None:
    assert [units.delay(s) for s in (0.0, 0.02, 0.3)] == ["at once", "at once", "after 0.30 s"]
    assert units.delay(2.5, "within {}") == "within 2.50 s"
    assert units.delay(0.01, "within {} of each other", soon="together") == "together"


def test_what_is_counted_is_singular_or_plural() -> None:
    assert units.plural(1, "line") == "1 line"
    assert units.plural(1204, "line") == "1,204 lines"
    assert units.plural(2, "loss was", "losses were") == "2 losses were"


def test_a_limit_is_a_number_or_off() -> None:
    assert [units.limit(text) for text in ("8", "8.5", "off")] == [8.0, 8.5, float("inf")]
    assert [units.LIMIT.show(value) for value in (8.0, 8.5, float("inf"))] == ["8", "8.5", "off"]
    with pytest.raises(PlanError, match="write a number, or off"):
        units.limit("none")
