"""Cosine similarity of each outer gradient of a round with the sum of the others, as merged.

    u_m = factor_m · Δ_m of each tensor, S = Σ u

    cos_m = <u_m, S - u_m> / (‖u_m‖ ‖S - u_m‖)

The merge knows ‖u_m‖ and ‖S‖, and computes <u_m, S> while a block of S is in the cache. A flipped
sign, which no norm shows, shows here. Describes; the checks of the harness judge.
"""

import math
from collections.abc import Sequence

_ROUNDING = 1e-5
"""At or below this share of the squares whose difference it is, ‖S - u_m‖² is rounding."""


def cosines(with_sum: Sequence[float], own: Sequence[float], square: float) -> list[float | None]:
    """By delta, from <u_m, S>, ‖u_m‖² and ‖S‖²; None where u_m or S - u_m has no direction."""
    if len(own) == 1:
        return [None]
    return [_cosine(product, one, square) for product, one in zip(with_sum, own, strict=True)]


def _cosine(product: float, own: float, square: float) -> float | None:
    others = square - 2 * product + own
    if not math.isfinite(others) or own <= 0 or others <= _ROUNDING * (square + own):
        return None
    return max(-1.0, min(1.0, (product - own) / math.sqrt(own * others)))
