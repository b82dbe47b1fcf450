"""Test hook of the learner: corrupts its pushes before they are sent, for a time.

    Payloads ── push, values ──► Tampering.outgoing ──► what is sent instead
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

from chaoslab.core.events import Json
from chaoslab.core.payloads import LifeFields, UpdateTampered
from chaoslab.core.protocol import Corruption
from chaoslab.diloco.learner.exchange import Outgoing
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.mailbox import Bytes

Make: TypeAlias = Callable[[Corruption | None, float], Bytes]
"""Makes the payload of a push, with its values changed; the factor is that of `scaled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    corruption: Corruption
    factor: float
    earlier: dict[int, tuple[pb.Push, Bytes]] = field(default_factory=dict)
    """Push that a stale one repeats, by fragment."""


class Tampering:
    """Replaces pushes before they are sent. Set on one thread, used on another."""

    def __init__(self, emit: Emit, whose: LifeFields) -> None:
        self._emit, self._whose = emit, whose
        self._asked: _Asked | None = None
        """Replaced as a whole: a push that is being sent keeps the settings it began with."""

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Begin the corruption that `facts` describe, or end it; ValueError for an unknown kind."""
        factor = float(str(facts.get("factor", 1.0)))
        self._asked = (
            _Asked(corruption=Corruption(str(facts["kind"])), factor=factor) if facts else None
        )

    def outgoing(self, push: pb.Push, make: Make) -> Sequence[Outgoing]:
        """What to send for a push; normally the push itself."""
        asked = self._asked
        honest: Outgoing = (push, lambda: make(None, 1.0))
        if asked is None:
            return [honest]
        corruption, factor, earlier = asked.corruption, asked.factor, asked.earlier
        if corruption is Corruption.STALE:
            if push.fragment not in earlier:
                earlier[push.fragment] = (push, honest[1]())
            if earlier[push.fragment][0].base_version == push.base_version:
                return [honest]  # nothing older to repeat
        self._emit(
            UpdateTampered(
                **self._whose,
                round=push.round,
                fragment=push.fragment,
                how=corruption,
                factor=factor if corruption is Corruption.SCALED else None,
            )
        )
        match corruption:
            case Corruption.NAN | Corruption.SCALED:
                return [(push, lambda: make(corruption, factor))]
            case Corruption.STALE:
                return [_repeated(push, *earlier[push.fragment])]
            case Corruption.DUPLICATE:
                return [honest, honest]


def _repeated(push: pb.Push, header: pb.Push, payload: Bytes) -> Outgoing:
    again = pb.Push()
    again.CopyFrom(header)
    again.round = push.round
    return again, lambda: payload
