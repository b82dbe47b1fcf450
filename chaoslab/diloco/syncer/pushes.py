"""The outer gradients that wait for the merge of their round, and how far each of them counts.

    push ─ take: decoded, sound? ─► kept by (round, epoch) ─ of(merge): bounded ─► merge
                                         └─ forget ◄── the round was abandoned

What is usual is known to `norms`; when a round is merged, and with whom, is the policy's affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaoslab.diloco.model.codec import Codec, MalformedPayload, decode
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.decisions import Contribution, Merge
from chaoslab.diloco.syncer.merge import norm
from chaoslab.diloco.syncer.norms import Excess, Norms, Size, lesson

_MAGNITUDE_MAX = 1e12
"""Larger values would leave float32 in the merge."""


@dataclass(frozen=True, slots=True)
class _Kept:
    delta: FloatArray
    """Outer gradient, float32 [n_p]."""
    norm: float


class Pushes:
    """Everything that was pushed and is not merged yet."""

    def __init__(self, settings: Settings) -> None:
        self._kept: dict[tuple[int, int], _Kept] = {}
        self._norms = Norms(limit=settings.norm_limit, rounds_min=settings.norm_rounds)
        self.lessons: dict[int, float] = {}
        """By round that was merged and is not yet on the tape: what it taught of what is usual."""
        self.bounded: tuple[tuple[Contribution, Excess], ...] = ()
        """The contributions to the last merge that were shortened, and why."""

    def take(
        self, round_: int, epoch: int, size: int, codec: str, payload: memoryview | None
    ) -> float:
        """Keep an outer gradient of `size` values for its round; its norm, L2 over the fragment.

        MalformedPayload or NotFinite if it is unsound.
        """
        try:
            known = Codec(codec)
        except ValueError as error:
            raise MalformedPayload(f"there is no codec {codec!r}") from error
        delta = decode(payload if payload is not None else b"", size, known)
        if max(float(delta.max()), -float(delta.min())) > _MAGNITUDE_MAX:
            raise MalformedPayload(f"an outer gradient beyond {_MAGNITUDE_MAX:g} is no update")
        kept = _Kept(delta, norm(delta))
        self._kept[round_, epoch] = kept
        return kept.norm

    def of(self, action: Merge, ordered: Sequence[Contribution]) -> list[FloatArray]:
        """The outer gradients of a merge, in that order; what is far too large is shortened.

        Afterwards they are forgotten, and `bounded` says which were shortened.
        """
        kept = [self._kept[action.round, c.epoch] for c in ordered]
        sizes = [
            Size(norm=one.norm, steps=c.offer.c_steps) for one, c in zip(kept, ordered, strict=True)
        ]
        excesses = self._norms.judge(action.fragment, sizes)
        self.bounded = tuple(
            (c, excess) for c, excess in zip(ordered, excesses, strict=True) if excess is not None
        )
        self.forget(action.round)
        self.lessons[action.round] = lesson(sizes, excesses)
        return [
            one.delta if excess is None else one.delta * np.float32(excess.factor)
            for one, excess in zip(kept, excesses, strict=True)
        ]

    def remember(self, fragment: int, usual: float) -> None:
        """What an earlier life of the syncer wrote down of a round of the fragment."""
        self._norms.learn(fragment, usual)

    def forget(self, round_: int) -> None:
        """A round is over: what was pushed for it is not needed any more."""
        for key in [key for key in self._kept if key[0] == round_]:
            del self._kept[key]
