"""A test hook of the learner: what it pushes is spoilt on its way out, for a time.

    Messenger ── push, values ──► Tampering.outgoing ──► what is sent in its place
    harness ── {"do": "updates", "kind": "scaled", "factor": 1000, "for_s": 8} ──► apply_hook

    nan        one value of the outer gradient is NaN
    scaled     the outer gradient times `factor`, under an honest header
    stale      the pull is answered with an earlier push: its header, its values, its base version
    duplicate  the push is sent twice

Only a learner that was started with `--test-hooks` can be asked. It says of every push what was
done to it (`update.tampered`); what it believes to have pushed it says as always.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.model.codec import Codec, encode
from chaoslab.diloco.model.fragments import FloatArray
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.wire import wire_pb2 as pb

Outgoing: TypeAlias = tuple[pb.Push, Callable[[], bytes]]
"""A header, and what makes its payload on the sender's thread."""


class How(StrEnum):
    """What is done to a push."""

    NAN = "nan"
    SCALED = "scaled"
    STALE = "stale"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    how: How
    factor: float
    earlier: dict[int, tuple[pb.Push, bytes]] = field(default_factory=dict)
    """By fragment: the push that a stale one repeats."""


class Tampering:
    """Between one learner's messenger and the wire. Asked from one thread, obeyed on another."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._asked: _Asked | None = None
        """Replaced as a whole: a push on its way out goes by what it began with."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Begin with what the facts say, or end it; an unknown kind is ValueError."""
        factor = float(str(facts.get("factor", 1.0)))
        self._asked = _Asked(how=How(str(facts["kind"])), factor=factor) if facts else None

    def outgoing(
        self, push: pb.Push, values: Callable[[], FloatArray], codec: Codec
    ) -> Sequence[Outgoing]:
        """What is sent for an honest push of `values`, float32 [n]; usually just that."""
        asked = self._asked
        honest: Outgoing = (push, lambda: encode(values(), codec))
        if asked is None:
            return [honest]
        how, factor, earlier = asked.how, asked.factor, asked.earlier
        if how is How.STALE and push.fragment not in earlier:
            earlier[push.fragment] = (push, honest[1]())
            return [honest]
        told: dict[str, Json] = {"factor": factor if how is How.SCALED else None}
        self._emit(
            Kind.UPDATE_TAMPERED,
            {"round": push.round, "fragment": push.fragment, "how": how.value, **told},
        )
        match how:
            case How.NAN:
                return [(push, lambda: encode(_with_nan(values()), codec))]
            case How.SCALED:
                return [(push, lambda: encode(_times(values(), factor), codec))]
            case How.STALE:
                return [_repeated(push, *earlier[push.fragment])]
            case How.DUPLICATE:
                return [honest, honest]


def untouched(push: pb.Push, values: Callable[[], FloatArray], codec: Codec) -> Sequence[Outgoing]:
    """What is sent when nobody tampers with it."""
    return [(push, lambda: encode(values(), codec))]


def _repeated(push: pb.Push, header: pb.Push, payload: bytes) -> Outgoing:
    again = pb.Push()
    again.CopyFrom(header)
    again.round = push.round
    return again, lambda: payload


def _with_nan(values: FloatArray) -> FloatArray:
    spoilt = values.copy()
    spoilt[0] = np.nan
    return spoilt


def _times(values: FloatArray, factor: float) -> FloatArray:
    with np.errstate(over="ignore"):  # a factor may be meant to leave float32
        return values * np.float32(factor)
