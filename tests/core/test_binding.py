"""Ranges in which a bound of a plan can be violated."""

from dataclasses import dataclass, fields

import pytest

from chaoslab.checks.catalogue import CHECKS
from chaoslab.core.binding import Range, binding, ranges
from chaoslab.core.units import Relative
from chaoslab.plan.model import Baseline

REFUSED_OTHERWISE = {("injections", "min_proved")}
ANY_RATE = {("bandwidth", "max_bytes_per_s")}
"""Links carry from kilobytes to gigabytes."""


@pytest.mark.parametrize(
    ("value", "is_inside"),
    [(0.05, True), (3, True), (0.04, False), (4, False), (None, True), (Relative(factor=3.0), True),
     (Relative(factor=4.0), False)],
)  # fmt: skip
def test_a_value_outside_of_the_range_is_answered_with_the_nearest_inside(
    value: object, *, is_inside: bool
) -> None:
    advice = Range(least=0.05, most=3, show="{:g}x".format).advice(value)
    assert (not advice) is is_inside
    assert is_inside or advice.endswith(("0.05x", " 3x"))


def test_a_bound_in_seconds_is_no_multiple_of_the_baseline() -> None:
    found = Range(most=10, is_of_baseline=True)
    assert (found.advice(30.0), bool(found.advice(Relative(factor=30.0)))) == ("", True)


def test_the_key_of_a_bound_has_no_unit() -> None:
    @dataclass(frozen=True)
    class Settings:
        wait_s: float = binding(1.0, most=9)

    assert [(key, value) for key, value, _ in ranges(Settings())] == [("wait", 1.0)]


@pytest.mark.parametrize("name", CHECKS)
def test_each_bound_of_a_check_says_in_which_range_it_binds(name: str) -> None:
    bounds = {one.name for one in fields(CHECKS[name]) if one.name.startswith(("min_", "max_"))}  # type: ignore[arg-type]
    known = {key for check, key in REFUSED_OTHERWISE | ANY_RATE if check == name}
    assert bounds - known == {key for key, _, _ in ranges(CHECKS[name]())}


@pytest.mark.parametrize("settings", [*(check() for check in CHECKS.values()), Baseline()])
def test_a_default_binds(settings: object) -> None:
    assert [allowed.advice(value) for _, value, allowed in ranges(settings)].count("") == len(
        list(ranges(settings))
    )
