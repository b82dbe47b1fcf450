"""Stretches of time: joined, and found by bisection as by looking at each."""

import random

import pytest

from chaoslab.checks.stretches import holds, overlap_s, union, union_by_name, without


@pytest.mark.parametrize("seed", range(20))
def test_a_time_is_in_the_union_if_it_is_in_one_of_them(seed: int) -> None:
    chance = random.Random(seed)
    starts_s = [chance.randint(0, 40) / 2 for _ in range(chance.randint(0, 12))]
    stretches = [(start_s, start_s + chance.randint(0, 6) / 2) for start_s in starts_s]
    joined = union(stretches)
    for half_seconds in range(60):
        time_s = half_seconds / 2
        is_in_one = any(start_s <= time_s <= end_s for start_s, end_s in stretches)
        assert holds(joined, time_s) is is_in_one


def test_stretches_that_touch_become_one() -> None:
    assert union([(2.0, 3.0), (0.0, 1.0), (1.0, 2.0), (5.0, 6.0)]) == [(0.0, 3.0), (5.0, 6.0)]


def test_each_name_has_a_union_of_its_own() -> None:
    found = union_by_name([("a", 1.0, 3.0), ("b", 2.0, 4.0), ("a", 2.0, 5.0)])
    assert found == {"a": [(1.0, 5.0)], "b": [(2.0, 4.0)]}


def test_what_lies_in_several_counts_several_times() -> None:
    assert overlap_s([(0.0, 4.0), (2.0, 6.0)], 1.0, 3.0) == 3.0


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_lies_in_the_stretches_and_in_none_that_was_taken(seed: int) -> None:
    chance = random.Random(seed)

    def drawn() -> list[tuple[float, float]]:
        starts_s = [chance.randint(0, 20) for _ in range(chance.randint(0, 5))]
        return [*union((float(start_s), start_s + chance.randint(1, 6)) for start_s in starts_s)]

    stretches, taken = drawn(), drawn()
    left = without(stretches, taken)
    for second in range(30):
        time_s = second + 0.5
        assert holds(left, time_s) is (holds(stretches, time_s) and not holds(taken, time_s))
