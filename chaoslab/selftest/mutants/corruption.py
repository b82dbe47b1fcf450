"""Corruption of a learner's state in place: signs and bits flipped, everything finite.

    parameters ── flip_parameters      updates of a step ── flip_updates
    first moments ── flip_moments      a packed state ── flip_bit

Functions of states of `Inner`, with shares of values drawn by a seed. For mutants of learners, and
for `benchmarks/corruption.py`, which measures what they cost and what shows them.
"""

import numpy as np

from chaoslab.diloco.learner.inner_steps import Inner, LearnerState
from chaoslab.diloco.model.fragments import FloatArray

_SEED = 1
_COUNT_BYTES = 4
"""Of Adam's count, between the parameters and the first moments of a packed state."""


def flip_parameters(
    inner: Inner, state: LearnerState, fragment: int, *, share: float
) -> LearnerState:
    """The trained values of a share of one fragment change their signs; adopted ones do not."""
    values = inner.flat(state.params, fragment)
    return _with_params(inner, state, fragment, values * _signs(values.size, share))


def flip_updates(
    inner: Inner, before: LearnerState, after: LearnerState, fragment: int, *, share: float
) -> LearnerState:
    """What a step did to a share of one fragment is done the other way."""
    old, new = inner.flat(before.params, fragment), inner.flat(after.params, fragment)
    values = old + (new - old) * _signs(old.size, share)
    return _with_params(inner, after, fragment, values)


def flip_moments(inner: Inner, state: LearnerState) -> LearnerState:
    """The first moments of AdamW change their signs."""
    payload = bytearray(inner.pack(state))
    size = 4 * inner.parameters
    moments = np.frombuffer(payload, "<f4", inner.parameters, size + _COUNT_BYTES)
    np.negative(moments, out=moments)
    return state._replace(moments=inner.unpack(bytes(payload)).moments)


def flip_bit(payload: bytes, *, value: int = 0, bit: int = 31) -> bytes:
    """One bit of one float32 of a packed state changes, by default a parameter's sign."""
    packed = bytearray(payload)
    packed[4 * value + bit // 8] ^= 1 << bit % 8
    return bytes(packed)


def _signs(size: int, share: float) -> FloatArray:
    is_flipped = np.random.default_rng(_SEED).random(size) < share
    return np.where(is_flipped, np.float32(-1), np.float32(1))


def _with_params(
    inner: Inner, state: LearnerState, fragment: int, values: FloatArray
) -> LearnerState:
    return inner.adopt(state, fragment, values)._replace(base=state.base)
