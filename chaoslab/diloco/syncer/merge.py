"""Merge of the learners' outer gradients of one fragment, and the outer step on the syncer.

    deltas [n] of M learners, weights ─ merge ─► Merged: delta [n] ─ outer_step ─► theta, momentum

`average` is Σ w Δ / Σ w. `rda`, radial-directional averaging, works per tensor: its norm is the
weighted mean of the norms, its direction that of the weighted mean of the unit vectors. Outer
gradients of different learners are nearly orthogonal, so a plain mean shrinks by √M; rda does not.

Cost of rda: the payload of each delta is read twice, for its norms (`squares_of`, when it arrives)
and for the sum, and is decoded in the cache. The sum is written once; the outer step scales it, as
its norm is known only then. Work is done in blocks that fit the cache, by several threads. Blocks
and order of all sums are fixed, within a block by the kernels of NumPy and BLAS for the processor:
so equal inputs give equal bits on one machine, whatever the number of threads.

The policy decides which learners are merged, with which weights.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np

from chaoslab.diloco.arrays.threads import INLINE, Threads
from chaoslab.diloco.model.codec import Encoded
from chaoslab.diloco.model.fragments import Block, FloatArray, Fragment, is_finite, squares
from chaoslab.diloco.syncer.combine import combine, cosines

DIRECTION_NORM_MIN = 1e-3
"""At or below this norm of the weighted mean of the unit vectors (of the deltas that are not zero)
the directions cancel, and rda falls back to the average. M orthogonal deltas of equal weight have
1/√M, so only opposed ones come near it; what remains of those is noise."""

_BLOCK = 524_288
"""Floats per NumPy call, a multiple of `READ_ALIGNMENT`. With a quarter of them scratch would stay
in the second-level cache, but two threads would be little faster than one: the calls are over so
soon that each waits for the other's interpreter lock."""
_MERGE_BLOCK = 262_144
"""As `_BLOCK`, in the sum, where the scratch of all deltas must stay in the third-level cache."""
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


class Merged(NamedTuple):
    """Merged outer gradient Δ of one fragment; kept as a sum that the outer step scales."""

    fragment: Fragment
    sums: FloatArray
    """[n] float32, Σ factor · Δ of the learners."""
    scales: Sequence[float]
    """Scales by tensor: Δ = scale · sum."""
    cosines: Sequence[float | None] = ()
    """Cosine of each delta with the others' sum; None without a direction. See `cosines`."""

    def read(self, block: Block, out: FloatArray) -> FloatArray:
        """Δ of one block: `out`, as long as the block."""
        sums = self.sums[block.at]
        for tensor, at in block.parts:
            np.multiply(sums[at], np.float32(self.scales[tensor]), out=out[at])
        return out


def merge(
    deltas: Sequence[Encoded],
    weights: Sequence[float],
    fragment: Fragment,
    method: Method | str = Method.RDA,
    *,
    squares_by_delta: Sequence[Sequence[float]],
    out: FloatArray | None = None,
    threads: Threads = INLINE,
) -> Merged:
    """The merged outer gradient, its sums in a new array or in `out`, which saves page faults.

    `deltas[m]` is Θ(previous) - θ of learner m, [n], finite; `weights[m]` >= 0;
    `squares_by_delta[m]` is what `squares_of` gives for it. A single contributor's delta is merged
    exactly. ValueError if lengths differ, a weight is negative or not finite, no weight is above
    zero, or the result is not finite; `out` then holds no result. Source: Decoupled DiLoCo, arXiv
    2604.21428.
    """
    is_rda = Method(method) is Method.RDA
    _check(deltas, weights, fragment)
    present = [m for m, weight in enumerate(weights) if weight > 0]
    chosen, shares = [deltas[m] for m in present], _shares([weights[m] for m in present])
    sums = np.empty(fragment.size, np.float32) if out is None else out
    fragment.check(sums)
    tensors = [
        _rule(chosen, [squares_by_delta[m][t] for m in present], shares, place)
        if is_rda and not spec.is_averaged
        else _Average(chosen, shares, place)
        for t, (spec, place) in enumerate(zip(fragment.tensors, fragment.slices, strict=True))
    ]
    factors = [[np.float32(factor) for factor in tensor.factors] for tensor in tensors]
    places, squares_ = fragment.blocks(_MERGE_BLOCK), [0.0] * len(tensors)
    with_sum = [0.0] * len(chosen)
    found = threads.each(lambda block: combine(chosen, factors, sums, block), places)
    for block, (parts, of_block) in zip(places, found, strict=True):
        for (tensor, _), square in zip(block.parts, parts, strict=True):
            squares_[tensor] += square
        with_sum = [sum(pair) for pair in zip(with_sum, of_block, strict=True)]
    scales = [
        tensor.finish(sums[tensor.place], square)
        for tensor, square in zip(tensors, squares_, strict=True)
    ]
    own = [
        math.fsum(
            float(of_tensor[m]) ** 2 * square
            for of_tensor, square in zip(factors, squares_by_delta[delta], strict=True)
        )
        for m, delta in enumerate(present)
    ]
    by_delta = dict(zip(present, cosines(with_sum, own, math.fsum(squares_)), strict=True))
    return Merged(fragment, sums, scales, [by_delta.get(m) for m in range(len(deltas))])


def squares_of(delta: Encoded, fragment: Fragment) -> list[float]:
    """‖Δ‖² of each tensor of a delta [n], in the fragment's order. See `fragments.squares`."""
    scratch, found = np.empty(min(_BLOCK, fragment.size), np.float32), [0.0] * len(fragment.tensors)
    for block in fragment.blocks(_BLOCK):
        if len(block.parts) == 1:
            found[block.parts[0][0]] += delta.squares(block.at, scratch)
            continue
        values = delta.read(block.at, scratch)
        for tensor, at in block.parts:
            found[tensor] += squares(values[at])
    return found


def outer_step(
    state: OuterState,
    merged: Merged,
    lr: float,
    momentum: float,
    *,
    out: OuterState | None = None,
    threads: Threads = INLINE,
) -> OuterState:
    """SGD with Nesterov momentum: v ← μ v + Δ ; Θ ← Θ - lr (Δ + μ v). A new state, or `out`.

    Equal to `optax.sgd(lr, momentum, nesterov=True)` on the gradient Δ. ValueError if shapes differ
    or the new state is not finite; `out`, which must not overlap the state, then holds no result.
    """
    theta, velocity = state
    if not theta.shape == velocity.shape == merged.sums.shape:
        raise ValueError(
            f"theta {theta.shape}, momentum {velocity.shape} and delta {merged.sums.shape} differ"
        )
    after = out or OuterState(np.empty_like(theta), np.empty_like(velocity))

    def step(block: Block) -> None:
        at, length = block.at, block.at.stop - block.at.start
        delta, change = merged.read(block, np.empty(length, np.float32)), after.theta[at]
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            _decay_and_add(velocity[at], delta, momentum, out=after.momentum[at])
            _decay_and_add(after.momentum[at], delta, momentum, out=change)
            np.multiply(change, np.float32(lr), out=change)
            np.subtract(theta[at], change, out=change)
        _refuse_not_finite(change)  # not finite wherever the momentum is not

    threads.each(step, merged.fragment.blocks(_BLOCK))
    return after


def norm(delta: Encoded, square: float) -> float:
    """‖Δ‖ of a finite delta whose sum of squares is known; summed in float64."""
    whole = slice(0, delta.size)
    if _is_safe(square, partial(delta.part, whole)):
        return math.sqrt(square)
    return float(np.linalg.norm(delta.part(whole).astype(np.float64)))


def _decay_and_add(old: FloatArray, new: FloatArray, decay: float, *, out: FloatArray) -> None:
    np.multiply(old, np.float32(decay), out=out)
    np.add(out, new, out=out)


# ---------------------------------------------------------------- one tensor


@dataclass(frozen=True, slots=True)
class _Average:
    """Σ w Δ / Σ w."""

    deltas: Sequence[Encoded]
    shares: Sequence[float]
    """w / Σ w"""
    place: slice
    """Part of the fragment with the tensor."""

    @property
    def factors(self) -> Sequence[float]:
        """Factors of the deltas in their sum."""
        return self.shares

    def finish(self, sums: FloatArray, square: float) -> float:
        """Scale of the tensor's sum, whose ‖·‖² is `square`; may replace the sum. ValueError."""
        if not math.isfinite(square):
            _refuse_not_finite(sums)
        return 1.0


@dataclass(frozen=True, slots=True)
class _Radial(_Average):
    """(Σ w‖Δ‖ / Σ w) · φ(Σ w φ(Δ) / Σ w)."""

    norms: Sequence[float]
    """‖Δ‖"""

    @property
    def factors(self) -> Sequence[float]:
        """Factors with the mean norm, which keeps terms of small deltas within float32, too."""
        mean_norm = _dot(self.shares, self.norms)
        return [
            share * mean_norm / norm if norm > 0 else 0.0
            for share, norm in zip(self.shares, self.norms, strict=True)
        ]

    def finish(self, sums: FloatArray, square: float) -> float:
        if not _is_safe(square, lambda: sums):
            return _Wide(self.deltas, self.shares, self.place).finish(sums, square)
        length, mean_norm = math.sqrt(square), _dot(self.shares, self.norms)
        if length > DIRECTION_NORM_MIN * mean_norm * _moving_share(self.shares, self.norms):
            return mean_norm / length
        _average(self, sums)
        return 1.0


@dataclass(frozen=True, slots=True)
class _Wide(_Average):
    """As `_Radial`, in float64, for norms whose squares float32 cannot represent."""

    def finish(self, sums: FloatArray, square: float) -> float:  # noqa: ARG002 - sums anew
        direction, norms = np.zeros(sums.shape), []
        for delta, share in zip(self.deltas, self.shares, strict=True):
            values = delta.part(self.place)
            _refuse_not_finite(values)
            wide = values.astype(np.float64)
            norms.append(float(np.linalg.norm(wide)))
            if norms[-1] > 0:
                direction += wide * (share / norms[-1])
        length = float(np.linalg.norm(direction))
        if length <= DIRECTION_NORM_MIN * _moving_share(self.shares, norms):
            _average(self, sums)
            return 1.0
        with np.errstate(over="ignore"):
            sums[:] = direction * (_dot(self.shares, norms) / length)
        _refuse_not_finite(sums)
        return 1.0


def _rule(
    deltas: Sequence[Encoded], squares_: Sequence[float], shares: Sequence[float], place: slice
) -> _Average:
    """Radial-directional averaging of one tensor, whose ‖Δ‖² are given."""
    if len(deltas) == 1:
        return _Average(deltas, shares, place)
    for delta, square in zip(deltas, squares_, strict=True):
        if not _is_safe(square, partial(delta.part, place)):
            return _Wide(deltas, shares, place)
    return _Radial(deltas, shares, place, [math.sqrt(square) for square in squares_])


def _average(tensor: _Average, out: FloatArray) -> None:
    """Σ share · delta of a tensor into `out`, where directions cancel."""
    out[:] = 0
    for delta, share in zip(tensor.deltas, tensor.shares, strict=True):
        out += delta.part(tensor.place) * np.float32(share)
    _refuse_not_finite(out)


def _moving_share(shares: Sequence[float], norms: Sequence[float]) -> float:
    """Sum of the shares whose delta is not zero; the largest possible length of a direction."""
    return math.fsum(share for share, norm in zip(shares, norms, strict=True) if norm > 0)


def _is_safe(square: float, values: Callable[[], FloatArray]) -> bool:
    """Whether float32 has represented a sum of squares; `values` gives what was squared."""
    return _SQUARES_MIN <= square <= _SQUARES_MAX or (square == 0 and not values().any())


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


# ---------------------------------------------------------------- checks of the input


def _check(deltas: Sequence[Encoded], weights: Sequence[float], fragment: Fragment) -> None:
    if len(deltas) != len(weights):
        raise ValueError(f"weights: must be one per delta ({len(deltas)}), got {len(weights)}")
    for delta in deltas:
        if delta.size != fragment.size:
            raise ValueError(f"delta: must be float32 [{fragment.size}], got [{delta.size}]")
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
