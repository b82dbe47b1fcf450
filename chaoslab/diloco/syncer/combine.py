"""Weighted sum of the deltas of several learners, one block of memory at a time.

    deltas ─┬─ rows of one scale each (int8, int4 …) ─► matrix product of scales and codes ─┬─► sum
            └─ anything else ─► decoded in the cache, one delta after another ──────────────┘

`merge` says which factors; nothing here checks them.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from chaoslab.diloco.model.codec import Encoded
from chaoslab.diloco.model.fragments import Block, FloatArray, dot, squares

_TOGETHER = 8
"""Deltas per matrix product: their codes stay in the third-level cache, and BLAS, which starts
threads of its own above nine thousand values of a product, does not."""


def combine(
    deltas: Sequence[Encoded],
    factors: Sequence[Sequence[np.float32]],
    out: FloatArray,
    block: Block,
) -> tuple[list[float], list[float]]:
    """Σ factor · delta of one block into `out`, in the order given.

    `factors[t][m]` is that of delta m in tensor t. Returns ‖·‖² of the block's parts of tensors,
    and <factor · delta, sum> by delta.
    """
    total, scratch = out[block.at], np.empty(block.at.stop - block.at.start, np.float32)
    rows = {delta.block for delta in deltas}
    with np.errstate(over="ignore", invalid="ignore"):  # `merge` checks the result
        if len(block.parts) == len(rows) == 1 and (row := rows.pop()) and not total.size % row:
            of_tensor = factors[block.parts[0][0]]
            of_deltas = _combine_scaled(deltas, of_tensor, block.at, total.reshape(-1, row))
        else:
            of_deltas = _combine_floats(deltas, factors, block, total, scratch)
        return [squares(total[at]) for _, at in block.parts], of_deltas


def _combine_floats(
    deltas: Sequence[Encoded],
    factors: Sequence[Sequence[np.float32]],
    block: Block,
    total: FloatArray,
    scratch: FloatArray,
) -> list[float]:
    """As `combine`, one delta after another; returns <factor · delta, sum> by delta."""
    for m, delta in enumerate(deltas):
        values, term = delta.read(block.at, scratch), scratch if m else total
        for tensor, at in block.parts:
            np.multiply(values[at], factors[tensor][m], out=term[at])
        if m:
            np.add(total, term, out=total)
    with_sum = [0.0] * len(deltas)
    for m, delta in enumerate(deltas if len(deltas) > 1 else ()):  # alone it has no cosine
        values = delta.read(block.at, scratch)
        for tensor, at in block.parts:
            with_sum[m] += float(factors[tensor][m]) * dot(values[at], total[at])
    return with_sum


def _combine_scaled(
    deltas: Sequence[Encoded], factors: Sequence[np.float32], at: slice, total: FloatArray
) -> list[float]:
    """As `combine`, of a slice in one tensor, `total` [k, row] with rows of one scale each.

    A row is the product of the vector of factor · scale and the matrix of codes; BLAS sums its
    terms, so the processor's kernel fixes their order. Returns <factor · delta, sum> by delta.
    """
    groups = _groups(deltas, factors, at, total)
    for number, (scales, codes) in enumerate(groups):
        if number:
            np.add(total, np.matmul(scales[:, None], codes)[:, 0], out=total)
        else:
            np.matmul(scales[:, None], codes, out=total[:, None])
    with_sum: list[float] = []
    if len(deltas) > _TOGETHER:
        groups = _groups(deltas, factors, at, total)  # decoded once more
    else:
        groups = iter([(scales, codes)])
    for scales, codes in groups:
        of_rows = np.matmul(codes, total[:, :, None])[..., 0]
        with_sum += (scales * of_rows).sum(axis=0, dtype=np.float64).tolist()
    return with_sum


def _groups(
    deltas: Sequence[Encoded], factors: Sequence[np.float32], at: slice, total: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Groups of `_TOGETHER` deltas: factor · scale [k, m] and codes [k, m, row]."""
    codes = np.empty((min(len(deltas), _TOGETHER), *total.shape), np.float32)
    scales = np.empty((len(total), len(codes)), np.float32)
    for first in range(0, len(deltas), _TOGETHER):
        group = deltas[first : first + _TOGETHER]
        for m, delta in enumerate(group):
            _, of_delta = delta.factors(at, codes[m])
            np.multiply(of_delta, factors[first + m], out=scales[:, m])
        yield scales[:, : len(group)], codes[: len(group)].transpose(1, 0, 2)


_ROUNDING = 1e-5
"""At or below this share of the squares whose difference it is, ‖S - u_m‖² is rounding."""


def cosines(with_sum: Sequence[float], own: Sequence[float], square: float) -> list[float | None]:
    """Cosine similarity of each outer gradient of a round with the sum of the others, as merged.

        u_m = factor_m · Δ_m of each tensor, S = Σ u

        cos_m = <u_m, S - u_m> / (‖u_m‖ ‖S - u_m‖)

    The merge knows ‖u_m‖ and ‖S‖, and computes <u_m, S> while a block of S is in the cache. A
    flipped sign, which no norm shows, shows here. Describes; the checks of the harness judge.

    By delta, from <u_m, S>, ‖u_m‖² and ‖S‖²; None where u_m or S - u_m has no direction.
    """
    if len(own) == 1:
        return [None]
    return [_cosine(product, one, square) for product, one in zip(with_sum, own, strict=True)]


def _cosine(product: float, own: float, square: float) -> float | None:
    others = square - 2 * product + own
    if not math.isfinite(others) or own <= 0 or others <= _ROUNDING * (square + own):
        return None
    return max(-1.0, min(1.0, (product - own) / math.sqrt(own * others)))
