"""Outer gradients that wait for the merge of their round, with bounds on their size.

    push ─ examine: valid? norms (any thread) ─► keep, by (round, epoch) ─► of(merge) ─► Given
                                                     └─ forget ◄── the round was abandoned

Norms are computed when a push arrives, so that the merge reads it once; both decode it in the
cache, and it is kept as it came. `norms` knows the usual size; the policy decides when a round is
merged, and with which learners.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaoslab.diloco.model.codec import Encoded, encode
from chaoslab.diloco.model.encodings import Codec, MalformedPayload, NotFinite
from chaoslab.diloco.model.fragments import FloatArray, Fragment, is_finite
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.merge import norm, squares_of
from chaoslab.diloco.syncer.norms import Excess, Norms, Size, round_median

_MAGNITUDE_MAX = 1e12
"""Largest magnitude accepted; larger values would overflow float32 in the merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An outer gradient that may be merged."""

    delta: Encoded
    """[n_p], in the payload of the push."""
    squares: Sequence[float]
    """‖Δ‖² of each tensor; see `merge.squares_of`."""
    norm: float
    """L2 norm over the fragment."""
    payload_bytes: int
    """Size of the push on the wire."""

    def scaled(self, factor: float, fragment: Fragment) -> "Update":
        """The update times a factor."""
        values = self.delta.part(slice(0, fragment.size)) * np.float32(factor)
        delta = Encoded(encode(values, Codec.F32), fragment.size, Codec.F32)
        squares = squares_of(delta, fragment)
        return replace(self, delta=delta, squares=squares, norm=norm(delta, math.fsum(squares)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInput:
    """Everything that is merged in one round, in the order of its merge."""

    contributions: Sequence[Contribution]
    updates: Sequence[Update]
    """Updates in the order of arrival."""
    excesses: Sequence[Excess | None]
    """Excess of each update that is scaled down, with the reason."""
    median: float
    """Median size of the round; see `norms`."""


class Pushes:
    """Pushes that are not merged yet. `examine` is thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._kept: dict[tuple[int, int], Update] = {}
        """Updates by round and epoch."""
        self._norms = Norms(limit=settings.norm_limit, rounds_min=settings.norm_rounds)

    def examine(self, fragment: Fragment, codec: str, payload: memoryview | None) -> Update:
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
        return Update(
            delta=delta, squares=squares, norm=norm(delta, square), payload_bytes=len(given)
        )

    def keep(self, round_: int, epoch: int, update: Update) -> None:
        """Keep an update for its round."""
        self._kept[round_, epoch] = update

    def of(self, action: Merge) -> MergeInput:
        """Remove and return the updates of a merge, in order of the learners' names."""
        ordered = sorted(action.contributions, key=lambda c: c.learner)
        updates = [self._kept[action.round, c.epoch] for c in ordered]
        sizes = [
            Size(norm=update.norm, steps=c.c_steps)
            for update, c in zip(updates, ordered, strict=True)
        ]
        excesses = self._norms.judge(action.fragment, sizes)
        self.forget(action.round)
        return MergeInput(
            contributions=ordered,
            updates=updates,
            excesses=excesses,
            median=round_median(sizes, excesses),
        )

    def remember(self, fragment: int, usual: float) -> None:
        """Learn the median size of an earlier round of the fragment, from the commit log."""
        self._norms.learn(fragment, usual)

    def forget(self, round_: int) -> None:
        """Drop the pushes of a round that is over."""
        for key in [key for key in self._kept if key[0] == round_]:
            del self._kept[key]


def _check_values(delta: FloatArray) -> None:
    """NotFinite or MalformedPayload for values that must not be merged."""
    if not is_finite(delta):
        raise NotFinite(f"push of {delta.size} floats: contains NaN or infinity")
    if max(float(delta.max()), -float(delta.min())) > _MAGNITUDE_MAX:
        raise MalformedPayload(f"push: values must be at most {_MAGNITUDE_MAX:g} in magnitude")
