"""Logarithms and powers by sums and products: right, and the same wherever they are computed."""

import math
from random import Random

import numpy as np
import pytest

from chaoslab.sim.portable_math import Numbers, exp, log, power


def uniform(number: int) -> Numbers:
    rng = Random(1)
    return np.array([1.0 - rng.random() for _ in range(number)])


def test_logarithms_are_those_of_the_c_library() -> None:
    shares = np.concatenate((uniform(5000), [1.0, 0.5, 2.0**-53, 1 - 2.0**-53, 3e200, 1e-300]))
    expected = [math.log(share) for share in shares.tolist()]
    assert log(shares).tolist() == pytest.approx(expected, rel=1e-15, abs=1e-16)
    assert log(np.array([1.0])).tolist() == [0.0]


def test_powers_of_e_are_those_of_the_c_library() -> None:
    numbers = np.concatenate((-700 + 1400 * uniform(5000), [0.0, 1.0, -1.0]))
    expected = [math.exp(number) for number in numbers.tolist()]
    assert exp(numbers).tolist() == pytest.approx(expected, rel=2e-15)


@pytest.mark.parametrize("exponent", [0.5, 1 / 3, 1 / 0.6, 3.0])
def test_powers_are_those_of_the_c_library(exponent: float) -> None:
    expected = [share**exponent for share in uniform(1000).tolist()]
    assert power(uniform(1000), exponent).tolist() == pytest.approx(expected, rel=1e-14)


def test_a_number_gives_the_same_in_every_bit_wherever_it_lies_in_an_array() -> None:
    """Vector instructions treat the last numbers of an array in another way than the others."""
    together = uniform(37)
    for function in (log, exp, lambda x: power(x, 1.7)):
        alone = [float(function(together[i : i + 1])[0]) for i in range(37)]
        assert function(together).tolist() == alone


def test_known_bits() -> None:
    """Any machine has to give these; they were computed once."""
    numbers = np.array([0.1, 0.7, 3.0])
    found = [value.hex() for value in (*log(numbers).tolist(), *exp(numbers).tolist())]
    assert found == [
        "-0x1.26bb1bbb55515p+1", "-0x1.6d3c324e13f4fp-2", "0x1.193ea7aad030bp+0",
        "0x1.1aec7b35a00d4p+0", "0x1.01c2a61268987p+1", "0x1.415e5bf6fb106p+4",
    ]  # fmt: skip
