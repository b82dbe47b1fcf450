"""Logarithms and powers of arrays, the same in every bit on any machine.

NumPy and C libraries compute them with the instructions that a processor happens to have, and their
last bits differ. Here they are sums and products in a fixed order, which IEEE 754 rounds in one way
only. Errors are a few units in the last place.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]

_LN_2: Final = (0.6931471803691238, 1.9082149292705877e-10)
"""In two parts, of which whole multiples of the first are exact."""
_MANTISSA_BITS: Final = 52
_MANTISSA: Final = (1 << _MANTISSA_BITS) - 1
_ONE: Final = 0x3FF << _MANTISSA_BITS
_SQRT_HALF: Final = 0x3FE6A09E << 32
"""Bits of 1 and of about the square root of 1/2."""
_ATANH: Final = tuple(1 / (2 * n + 1) for n in reversed(range(10)))
_EXP: Final = tuple(1 / math.factorial(n) for n in reversed(range(14)))
"""Coefficients of Taylor's series, the highest power first."""


def log(x: Numbers) -> Numbers:
    """Of positive normal numbers: x = 2^e m with ln m = 2 atanh((m - 1) / (m + 1))."""
    bits = x.view(np.int64) + (_ONE - _SQRT_HALF)
    exponent = (bits >> _MANTISSA_BITS) - (_ONE >> _MANTISSA_BITS)
    m = ((bits & _MANTISSA) + _SQRT_HALF).view(np.float64)  # from the root of 1/2 to that of 2
    ratio = (m - 1.0) / (m + 1.0)
    series = _polynomial(_ATANH, ratio * ratio)
    series *= 2.0 * ratio
    series += exponent * _LN_2[1]
    series += exponent * _LN_2[0]
    return series


def exp(x: Numbers) -> Numbers:
    """e^x, for results that are normal numbers: x = n ln 2 + r, e^x = 2^n e^r."""
    n = np.rint(x * (1 / (_LN_2[0] + _LN_2[1])))
    rest = (x - n * _LN_2[0]) - n * _LN_2[1]
    return np.ldexp(_polynomial(_EXP, rest), n.astype(np.int32))


def power(x: Numbers, y: float) -> Numbers:
    """x^y of positive numbers."""
    return np.sqrt(x) if y == 0.5 else exp(y * log(x))


def _polynomial(coefficients: Sequence[float], x: Numbers) -> Numbers:
    found = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        found *= x
        found += coefficient
    return found
