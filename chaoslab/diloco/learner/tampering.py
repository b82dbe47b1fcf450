"""Test hook of the learner: corrupts its pushes before they are sent, for a time.

    Messenger ── push, values ──► Tampering.outgoing ──► what is sent instead
    harness ── {"do": "updates", "kind": "scaled", "factor": 1000, "for_s": 8} ──► apply_hook

    nan        one value of the outer gradient is NaN
    scaled     the outer gradient times `factor`, under a correct header
    stale      the pull is answered with an earlier push: its header, its values, its base version,
               once that is not the newest any more
    duplicate  the push is sent twice

Only in learners started with `--test-hooks`. `update.tampered` reports what was done to each push;
`learner.pushed` reports the push as the learner made it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from chaoslab.core.events import Json
from chaoslab.core.payloads import UpdateTampered
from chaoslab.core.protocol import Corruption
from chaoslab.diloco.model.codec import encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.frames import Bytes

Outgoing: TypeAlias = tuple[pb.Push, Callable[[], Bytes]]
"""A header, and a function that makes its payload on the sender's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    corruption: Corruption
    factor: float
    earlier: dict[int, tuple[pb.Push, Bytes]] = field(default_factory=dict)
    """Push that a stale one repeats, by fragment."""


class Tampering:
    """Replaces pushes between messenger and wire. Set on one thread, used on another."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._asked: _Asked | None = None
        """Replaced as a whole: a push that is being sent keeps the settings it began with."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Begin the corruption that `facts` describe, or end it; ValueError for an unknown kind."""
        factor = float(str(facts.get("factor", 1.0)))
        self._asked = (
            _Asked(corruption=Corruption(str(facts["kind"])), factor=factor) if facts else None
        )

    def outgoing(
        self, push: pb.Push, values: Callable[[], FloatArray], codec: Codec
    ) -> Sequence[Outgoing]:
        """What to send for a push of `values`, float32 [n]; normally the push itself."""
        asked = self._asked
        honest: Outgoing = (push, lambda: encode(values(), codec))
        if asked is None:
            return [honest]
        corruption, factor, earlier = asked.corruption, asked.factor, asked.earlier
        if corruption is Corruption.STALE:
            if push.fragment not in earlier:
                earlier[push.fragment] = (push, honest[1]())
            if earlier[push.fragment][0].base_version == push.base_version:
                return [honest]  # nothing older to repeat
        self._emit(
            UpdateTampered,
            round=push.round,
            fragment=push.fragment,
            how=corruption,
            factor=factor if corruption is Corruption.SCALED else None,
        )
        match corruption:
            case Corruption.NAN:
                return [(push, lambda: encode(_with_nan(values()), codec))]
            case Corruption.SCALED:
                return [(push, lambda: encode(_times(values(), factor), codec))]
            case Corruption.STALE:
                return [_repeated(push, *earlier[push.fragment])]
            case Corruption.DUPLICATE:
                return [honest, honest]


def _repeated(push: pb.Push, header: pb.Push, payload: Bytes) -> Outgoing:
    again = pb.Push()
    again.CopyFrom(header)
    again.round = push.round
    return again, lambda: payload


def _with_nan(values: FloatArray) -> FloatArray:
    tampered = values.copy()
    tampered[0] = np.nan
    return tampered


def _times(values: FloatArray, factor: float) -> FloatArray:
    with np.errstate(over="ignore"):  # the factor may be meant to overflow float32
        return values * np.float32(factor)
