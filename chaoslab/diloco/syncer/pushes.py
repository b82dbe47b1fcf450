"""Outer gradients that wait for the merge of their round, with bounds on their size.

    push ─ take: decoded, valid? ─► kept by (round, epoch) ─ of(merge): bounded ─► merge
                                         └─ forget ◄── the round was abandoned

`norms` knows the usual size; the policy decides when a round is merged, and with which learners.
"""

from collections.abc import Sequence

import numpy as np

from chaoslab.diloco.model.codec import Codec, MalformedPayload, decode
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.merge import norm
from chaoslab.diloco.syncer.norms import Excess, Norms, Size, round_median

_MAGNITUDE_MAX = 1e12
"""Largest magnitude accepted; larger values would overflow float32 in the merge."""


class Pushes:
    """Pushes that are not merged yet."""

    def __init__(self, settings: Settings) -> None:
        self._kept: dict[tuple[int, int], tuple[FloatArray, float]] = {}
        """By round and epoch: outer gradient, float32 [n_p], and its norm."""
        self._norms = Norms(limit=settings.norm_limit, rounds_min=settings.norm_rounds)
        self.medians: dict[int, float] = {}
        """By round that is merged but not in the commit log yet: its median size; see `norms`."""
        self.bounded: tuple[tuple[Contribution, Excess], ...] = ()
        """Contributions of the last merge that were scaled down, with the reason."""

    def take(
        self, round_: int, epoch: int, size: int, codec: str, payload: memoryview | None
    ) -> float:
        """Keep an outer gradient of `size` values for its round; return its L2 norm.

        MalformedPayload or NotFinite if it is invalid.
        """
        try:
            known = Codec(codec)
        except ValueError as error:
            raise MalformedPayload(f"codec: must be one of {[*Codec]}, got {codec!r}") from error
        delta = decode(payload if payload is not None else b"", size, known)
        if max(float(delta.max()), -float(delta.min())) > _MAGNITUDE_MAX:
            raise MalformedPayload(f"push: values must be at most {_MAGNITUDE_MAX:g} in magnitude")
        size_l2 = norm(delta)
        self._kept[round_, epoch] = delta, size_l2
        return size_l2

    def of(self, action: Merge, ordered: Sequence[Contribution]) -> list[FloatArray]:
        """Remove and return the outer gradients of a merge, in the order of `ordered`.

        Those beyond the limit are scaled down and listed in `bounded`.
        """
        kept = [self._kept[action.round, c.epoch] for c in ordered]
        sizes = [
            Size(norm=size_l2, steps=c.c_steps)
            for (_, size_l2), c in zip(kept, ordered, strict=True)
        ]
        excesses = self._norms.judge(action.fragment, sizes)
        self.bounded = tuple(
            (c, excess) for c, excess in zip(ordered, excesses, strict=True) if excess is not None
        )
        self.forget(action.round)
        self.medians[action.round] = round_median(sizes, excesses)
        return [
            delta if excess is None else delta * np.float32(excess.factor)
            for (delta, _), excess in zip(kept, excesses, strict=True)
        ]

    def remember(self, fragment: int, usual: float) -> None:
        """Learn the median size of an earlier round of the fragment, from the commit log."""
        self._norms.learn(fragment, usual)

    def forget(self, round_: int) -> None:
        """Drop the pushes of a round that is over."""
        for key in [key for key in self._kept if key[0] == round_]:
            del self._kept[key]
