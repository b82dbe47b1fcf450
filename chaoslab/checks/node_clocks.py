"""When events of nodes happened: by their own clocks, put onto the clock of the harness.

    node      ·    ·    ·    ·    ·         node_s of each event of one life
    harness   ·    ·  [ stood still ]····   time_s: when it heard of them
                        ·    ·    ·         node_s + the offset of that clock: when they happened

The offset is the least `time_s - node_s` of a life around the event: what was heard at once. A late
event is moved back by no more than a second, which is as long as a harness may be late without
noting it, and what it noted as `harness.stalled`: a node's clock cannot hide a pause of training.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field

from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.core.payloads import HarnessStalled, NodeStarted
from chaoslab.record.journal import History

_UNNOTED_S = 1.0
"""A harness may hear of an event so late without `harness.stalled` to explain it."""
_BUCKET_S, _BUCKETS = 5.0, 2
"""Clocks may drift, so an offset is taken from so many stretches before and after an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stretch in which the harness stood still, so that it heard of nothing."""

    start_s: float
    end_s: float
    event: Event[HarnessStalled]

    @property
    def text(self) -> str:
        """What stood still, for how long and since when."""
        said = self.event.payload
        return f"{said.what} for {said.silent_s:.1f} s from {self.start_s:.1f} s on"


@dataclass(slots=True, kw_only=True)
class _Clock:
    """The clock of one life of a node, beside that of the harness."""

    least_s: dict[int, float] = field(default_factory=dict)
    """The least offset of its events in each stretch of the run."""
    offsets_s: dict[int, float] = field(default_factory=dict)
    """The offset that holds in a stretch: the least of those around it."""
    latest_s: float = -math.inf
    """When the last of its events happened; they stay in their order."""

    def hear(self, time_s: float, node_s: float) -> None:
        """Learn from an event."""
        bucket, offset_s = int(time_s // _BUCKET_S), time_s - node_s
        if offset_s < self.least_s.get(bucket, math.inf):
            self.least_s[bucket] = offset_s

    def happened_s(self, time_s: float, node_s: float, stood_still: Sequence[Stall]) -> float:
        """When an event happened that was heard of at `time_s`, if so long a way is possible."""
        bucket = int(time_s // _BUCKET_S)
        offset_s = self.offsets_s.get(bucket)
        if offset_s is None:
            around = range(bucket - _BUCKETS, bucket + _BUCKETS + 1)
            offset_s = min(self.least_s.get(one, math.inf) for one in around)
            self.offsets_s[bucket] = offset_s
        said_s = node_s + offset_s
        late_s = time_s - said_s
        if late_s > _UNNOTED_S and late_s > _UNNOTED_S + _stalled_s(stood_still, said_s, time_s):
            said_s = time_s
        self.latest_s = max(self.latest_s, min(said_s, time_s))
        return min(time_s, self.latest_s)


def stalls(history: History) -> tuple[Stall, ...]:
    """Every stretch in which the harness noted that it had stood still, in order."""
    return tuple(map(_stall, history.of(HarnessStalled)))


def by_node_clocks(history: History) -> History:
    """The same record, and its twin, with the events of nodes at the times at which they happened.

    Events without a clock of their own, and those whose clock explains nothing, stay as they are.
    """
    clocks = _clocks(history.events)
    stood_still = stalls(history)
    events = [
        event
        if event.node_s is None
        else event.at(clock.happened_s(event.time_s, event.node_s, stood_still))
        for event, clock in zip(history.events, clocks, strict=True)
    ]
    control = by_node_clocks(history.control) if history.control else None
    return history.retimed(events, control=control)


def as_it_happened(history: History) -> History:
    """The record with the times at which things happened; as it is if a line of it is broken."""
    try:
        return history.once(by_node_clocks)
    except MalformedEvent:  # the verdict has a finding that says so
        return history


def _clocks(events: Sequence[Event]) -> Sequence[_Clock]:
    """For each event the clock of the life that is speaking, when all of it has been heard."""
    speaking: dict[str, _Clock] = defaultdict(_Clock)
    found = []
    for event in events:
        if event.kind is Kind.NODE_STARTED and isinstance(event.payload, NodeStarted):
            speaking[event.payload.node] = _Clock()
        clock = speaking[event.source]
        if event.node_s is not None:
            clock.hear(event.time_s, event.node_s)
        found.append(clock)
    return found


def _stalled_s(stood_still: Sequence[Stall], start_s: float, end_s: float) -> float:
    """For how much of a stretch the harness stood still."""
    return sum(max(0.0, min(s.end_s, end_s) - max(s.start_s, start_s)) for s in stood_still)


def _stall(event: Event[HarnessStalled]) -> Stall:
    """Records of older versions do not say since when it stood still."""
    since_s = event.payload.since_s
    start_s = event.time_s - event.payload.silent_s if since_s is None else since_s
    return Stall(start_s=start_s, end_s=event.time_s, event=event)
