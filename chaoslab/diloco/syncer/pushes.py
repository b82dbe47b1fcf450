"""Outer gradients as they are pushed: examined, and scaled down if they are too large.

    push ─ examine: valid? norms (any thread) ─► keep, …  (`training_state`)

Norms are computed when a push arrives, so that the merge reads it once; both decode it in the
cache, and it is kept as it came.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaoslab.diloco.model.codec import Encoded, encode
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite
from chaoslab.diloco.model.fragments import FloatArray, Fragment, is_finite
from chaoslab.diloco.syncer.merge import norm, squares_of
from chaoslab.diloco.syncer.training_state import KeptPushes, Update

_MAGNITUDE_MAX = 1e12
"""Largest magnitude accepted; larger values would overflow float32 in the merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedUpdate(Update):
    """An outer gradient that may be merged."""

    delta: Encoded
    """[n_p], in the payload of the push."""
    squares: Sequence[float]
    """‖Δ‖² of each tensor; see `merge.squares_of`."""

    def scaled(self, factor: float, fragment: Fragment) -> "DecodedUpdate":
        """The update times a factor."""
        values = self.delta.part(slice(0, fragment.size)) * np.float32(factor)
        delta = Encoded(encode(values, Codec.F32), fragment.size, Codec.F32)
        squares = squares_of(delta, fragment)
        return replace(self, delta=delta, squares=squares, norm=norm(delta, math.fsum(squares)))


class Pushes(KeptPushes[DecodedUpdate]):
    """Pushes that are not merged yet. `examine` is thread-safe."""

    def examine(self, fragment: Fragment, codec: str, payload: memoryview | None) -> DecodedUpdate:
        """The outer gradient of a push; MalformedPayload or NotFinite if it is invalid."""
        try:
            known = Codec(codec)
        except ValueError as error:
            raise MalformedPayload(f"codec: must be one of {[*Codec]}, got {codec!r}") from error
        given = payload if payload is not None else b""
        delta = Encoded(given, fragment.size, known)
        squares = squares_of(delta, fragment)
        square = sum(squares)
        if not square <= _MAGNITUDE_MAX**2:  # else no value is larger, and none is NaN or infinite
            _check_values(delta.part(slice(0, delta.size)))
        return DecodedUpdate(
            delta=delta, squares=squares, norm=norm(delta, square), payload_bytes=len(given)
        )


def _check_values(delta: FloatArray) -> None:
    """NotFinite or MalformedPayload for values that must not be merged."""
    if not is_finite(delta):
        raise NotFinite(f"push of {delta.size} floats: contains NaN or infinity")
    if max(float(delta.max()), -float(delta.min())) > _MAGNITUDE_MAX:
        raise MalformedPayload(f"push: values must be at most {_MAGNITUDE_MAX:g} in magnitude")
