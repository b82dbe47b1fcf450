"""Merge of the learners' outer gradients of one fragment, and the outer step on the syncer.

    deltas [n] of M learners, weights ── merge ──► delta [n] ── outer_step ──► theta, momentum [n]

`average` is Σ w Δ / Σ w. `rda`, radial-directional averaging, works per tensor: its norm is the
weighted mean of the norms, its direction that of the weighted mean of the unit vectors. Outer
gradients of different learners are nearly orthogonal, so a plain mean shrinks by √M; rda does not.

Cost of rda: each delta is read twice, the result is written once and scaled in place. Work is done
in blocks that fit the cache, in one thread (two gain a tenth because of the interpreter lock).
Blocks and order of all sums are fixed, so equal inputs give equal bits.

The policy decides which learners are merged, with which weights.
"""

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from chaoslab.diloco.model.fragments import FloatArray, Fragment, is_finite

DIRECTION_NORM_MIN = 1e-3
"""At or below this norm of the weighted mean of the unit vectors (of the deltas that are not zero)
the directions cancel, and rda falls back to the average. M orthogonal deltas of equal weight have
1/√M, so only opposed ones come near it; what remains of those is noise."""

_BLOCK = 131_072
"""Floats per numpy call, so that result and scratch stay in the second-level cache."""
_ROW = 8_192
"""Floats per dot product of BLAS, which starts threads of its own above ten thousand."""
_SQUARES_MIN, _SQUARES_MAX = 1e-20, 1e30
"""Sums of squares outside this range lose digits in float32; such tensors are merged in float64."""


class Method(StrEnum):
    """Method of merging deltas."""

    RDA = "rda"
    AVERAGE = "average"


class OuterState(NamedTuple):
    """State of one fragment on the syncer."""

    theta: FloatArray
    """[n] float32, global parameters Θ."""
    momentum: FloatArray
    """[n] float32, momentum v of the outer optimizer."""


def merge(
    deltas: Sequence[FloatArray],
    weights: Sequence[float],
    fragment: Fragment,
    method: Method | str = Method.RDA,
    *,
    out: FloatArray | None = None,
) -> FloatArray:
    """The merged outer gradient, float32 [n]: a new array, or `out`, whose reuse saves page faults.

    `deltas[m]` is Θ(previous) - θ of learner m, float32 [n], finite; `weights[m]` >= 0. A single
    contributor's delta is returned exactly. ValueError if lengths or shapes differ, a weight is
    negative or not finite, no weight is above zero, or the result is not finite; `out`, which must
    not overlap a delta, then holds no result. Source: Decoupled DiLoCo, arXiv 2604.21428.
    """
    chosen = Method(method)
    _check(deltas, weights, fragment)
    present = [delta for delta, weight in zip(deltas, weights, strict=True) if weight > 0]
    shares = _shares([weight for weight in weights if weight > 0])
    merged = np.empty(fragment.size, np.float32) if out is None else out
    fragment.check(merged)
    for spec, place in zip(fragment.tensors, fragment.slices, strict=True):
        is_averaged = spec.is_averaged or chosen is Method.AVERAGE or len(present) == 1
        merge_tensor = _average if is_averaged else _radial_directional
        merge_tensor([delta[place] for delta in present], shares, merged[place])
    return merged


def outer_step(state: OuterState, delta: FloatArray, lr: float, momentum: float) -> OuterState:
    """SGD with Nesterov momentum: v ← μ v + Δ ; Θ ← Θ - lr (Δ + μ v). A new state.

    `delta` is float32 [n] as from `merge`. Equal to `optax.sgd(lr, momentum, nesterov=True)` on the
    gradient Δ. ValueError if shapes differ or the new state is not finite.
    """
    theta, velocity = state
    if not theta.shape == velocity.shape == delta.shape:
        raise ValueError(
            f"theta {theta.shape}, momentum {velocity.shape} and delta {delta.shape} differ"
        )
    after = OuterState(np.empty_like(theta), np.empty_like(velocity))
    scratch = np.empty(min(_BLOCK, delta.size), np.float32)
    for block in _blocks(delta.size):
        change = scratch[: block.stop - block.start]
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            _decay_and_add(velocity[block], delta[block], momentum, out=after.momentum[block])
            _decay_and_add(after.momentum[block], delta[block], momentum, out=change)
            np.multiply(change, np.float32(lr), out=change)
            np.subtract(theta[block], change, out=after.theta[block])
        _refuse_not_finite(after.theta[block])  # not finite wherever the momentum is not
    return after


def norm(array: FloatArray) -> float:
    """‖array‖ of a finite float32 [n], summed in float64."""
    square = _squares(array)
    if _is_safe(square, array):
        return math.sqrt(square)
    return float(np.linalg.norm(array.astype(np.float64)))


def _decay_and_add(old: FloatArray, new: FloatArray, decay: float, *, out: FloatArray) -> None:
    np.multiply(old, np.float32(decay), out=out)
    np.add(out, new, out=out)


# ---------------------------------------------------------------- one tensor


def _average(deltas: Sequence[FloatArray], shares: Sequence[float], out: FloatArray) -> None:
    """Σ share · delta into `out`."""
    for block in _combine(deltas, shares, out):
        _refuse_not_finite(block)


def _radial_directional(
    deltas: Sequence[FloatArray], shares: Sequence[float], out: FloatArray
) -> None:
    """(Σ w‖Δ‖ / Σ w) · φ(Σ w φ(Δ) / Σ w) into `out`; the shares are w / Σ w."""
    squares = [_squares(delta) for delta in deltas]
    if not all(map(_is_safe, squares, deltas)):
        _radial_directional_f64(deltas, shares, out)
        return
    norms = [math.sqrt(square) for square in squares]
    mean_norm = _dot(shares, norms)
    # mean_norm in the factors keeps the terms within float32 however small the deltas are.
    factors = [
        share * mean_norm / norm if norm > 0 else 0.0
        for share, norm in zip(shares, norms, strict=True)
    ]
    square = sum(_squares(block) for block in _combine(deltas, factors, out))
    if not _is_safe(square, out):
        _radial_directional_f64(deltas, shares, out)
        return
    norm = math.sqrt(square)
    if norm <= DIRECTION_NORM_MIN * mean_norm * _moving_share(shares, norms):
        _average(deltas, shares, out)
    else:
        np.multiply(out, np.float32(mean_norm / norm), out=out)


def _radial_directional_f64(
    deltas: Sequence[FloatArray], shares: Sequence[float], out: FloatArray
) -> None:
    """The same formula in float64, for norms whose squares float32 cannot represent."""
    direction = np.zeros(out.shape)
    norms = []
    for delta, share in zip(deltas, shares, strict=True):
        _refuse_not_finite(delta)
        wide = delta.astype(np.float64)
        norms.append(float(np.linalg.norm(wide)))
        if norms[-1] > 0:
            direction += wide * (share / norms[-1])
    norm = float(np.linalg.norm(direction))
    if norm <= DIRECTION_NORM_MIN * _moving_share(shares, norms):
        _average(deltas, shares, out)
        return
    with np.errstate(over="ignore"):
        out[:] = direction * (_dot(shares, norms) / norm)
    _refuse_not_finite(out)


def _moving_share(shares: Sequence[float], norms: Sequence[float]) -> float:
    """Sum of the shares whose delta is not zero; the largest possible length of a direction."""
    return math.fsum(share for share, norm in zip(shares, norms, strict=True) if norm > 0)


def _is_safe(square: float, delta: FloatArray) -> bool:
    return _SQUARES_MIN <= square <= _SQUARES_MAX or (square == 0 and not delta.any())


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


# ---------------------------------------------------------------- passes over memory


def _combine(
    deltas: Sequence[FloatArray], factors: Sequence[float], out: FloatArray
) -> Iterator[FloatArray]:
    """Σ factor · delta into `out`, in the order given; yields each block while it is in cache."""
    first, *others = zip(deltas, map(np.float32, factors), strict=True)
    scratch = np.empty(min(_BLOCK, out.size), np.float32)
    for block in _blocks(out.size):
        total, term = out[block], scratch[: block.stop - block.start]
        with np.errstate(over="ignore", invalid="ignore"):  # checked by the caller
            np.multiply(first[0][block], first[1], out=total)
            for delta, factor in others:
                np.multiply(delta[block], factor, out=term)
                np.add(total, term, out=total)
        yield total


def _squares(array: FloatArray) -> float:
    """‖array‖²: within a row in float32 by BLAS, over the rows in float64."""
    whole = array.size - array.size % _ROW
    rows, rest = array[:whole].reshape(-1, _ROW), array[whole:]
    with np.errstate(over="ignore", invalid="ignore"):  # checked by `_is_safe`
        return float(np.vecdot(rows, rows).sum(dtype=np.float64)) + float(np.vecdot(rest, rest))


def _blocks(size: int) -> Iterator[slice]:
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


# ---------------------------------------------------------------- checks of the input


def _check(deltas: Sequence[FloatArray], weights: Sequence[float], fragment: Fragment) -> None:
    if len(deltas) != len(weights):
        raise ValueError(f"weights: must be one per delta ({len(deltas)}), got {len(weights)}")
    for delta in deltas:
        fragment.check(delta)
    for weight in weights:
        if not (math.isfinite(weight) and weight >= 0):
            raise ValueError(f"weight: must be finite and at least 0, got {weight}")
    if not any(weight > 0 for weight in weights):
        raise ValueError(f"fragment {fragment.index}: one weight must be above 0, got none")


def _shares(weights: Sequence[float]) -> list[float]:
    """The weights over their sum, computed from their largest so that no sum overflows."""
    largest = max(weights)
    scaled = [weight / largest for weight in weights]
    total = math.fsum(scaled)
    return [weight / total for weight in scaled]


def _refuse_not_finite(array: FloatArray) -> None:
    if not is_finite(array):
        raise ValueError(
            "a delta holds NaN or infinity, or the result overflows float32: refuse such a push "
            "before merging"
        )
