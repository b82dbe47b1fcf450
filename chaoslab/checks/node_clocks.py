"""Node clocks: times of nodes' events, converted to the clock of the harness.

    node      ·    ·    ·    ·    ·         node_s of each event of one life
    harness   ·    ·  [   stalled   ]····   time_s: when it heard of them
                        ·    ·    ·         node_s + the offset of that clock: when they happened

A note of a game-day that was written late says itself when it came.

The offset is the least `time_s - node_s` of a life around the event: what was heard at once. A late
event is moved back by no more than a second, which is as long as a harness may be late without
noting it, and what it noted as `harness.stalled`: a node's clock cannot hide a pause of training.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from chaoslab.checks.stretches import overlap_s
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.payloads import HarnessStalled, NodeStarted, OperatorNoted
from chaoslab.record.history import History

_UNNOTED_S = 1.0
"""A harness may hear of an event so late without `harness.stalled` to explain it."""
_BUCKET_S, _BUCKETS = 5.0, 2
"""Clocks may drift, so an offset is taken from this many stretches before and after an event."""

_Life: TypeAlias = Sequence[tuple[Event, float]]
"""Of each event that has a clock of its own: the event and its `node_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stretch in which the harness stalled, so that it heard of nothing."""

    start_s: float
    end_s: float
    event: Event[HarnessStalled]

    @property
    def text(self) -> str:
        """Subject of the stall, its duration and its begin."""
        said = self.event.payload
        return f"{said.what} for {said.silent_s:.1f} s from {self.start_s:.1f} s on"


def stalls(history: History) -> tuple[Stall, ...]:
    """Every stretch in which the harness noted that it had stalled, in order."""
    return tuple(
        Stall(start_s=event.payload.since_s, end_s=event.time_s, event=event)
        for event in history.of(HarnessStalled)
    )


def by_node_clocks(history: History) -> History:
    """The same record, and its twin, with the events of nodes at the times at which they happened,
    and notes of a game-day at those at which they came.

    Events without a clock of their own, and those whose clock explains nothing, stay as they are.
    """
    events = list(history.events)
    stretches = stalls(history)
    for life in _lives(history.events):
        for (event, _), happened_s in zip(life, _happened_s(life, stretches), strict=True):
            events[event.seq] = event.at(happened_s)
    for noted in history.of(OperatorNoted):
        if (came_s := noted.payload.came_s) is not None:
            events[noted.seq] = noted.at(min(came_s, noted.time_s))
    twin = by_node_clocks(history.twin) if history.twin else None
    return history.retimed(events, twin=twin)


def as_it_happened(history: History) -> History:
    """The record with the times at which things happened; as it is if a line of it is broken."""
    try:
        return history.once(by_node_clocks)
    except MalformedEvent:  # the verdict has a finding that says so
        return history


def _lives(events: Iterable[Event]) -> Sequence[_Life]:
    """The events of each life of a node, in order."""
    over: list[_Life] = []
    speaking: dict[str, list[tuple[Event, float]]] = defaultdict(list)
    for event in events:
        if event.kind is Kind.NODE_STARTED and isinstance(event.payload, NodeStarted):
            over.append(speaking.pop(event.payload.node, []))
        if event.node_s is not None:
            speaking[event.source].append((event, event.node_s))
    return [*over, *speaking.values()]


def _happened_s(life: _Life, stretches: Sequence[Stall]) -> Iterator[float]:
    """Time of each event of a life: when it was read, or earlier if that is possible."""
    offsets_s, latest_s = _offsets_s(life), -math.inf
    for event, node_s in life:
        time_s = event.time_s
        said_s = node_s + offsets_s[time_s // _BUCKET_S]
        late_s = time_s - said_s
        is_possible = late_s <= _UNNOTED_S or (
            late_s
            <= _UNNOTED_S + overlap_s([(s.start_s, s.end_s) for s in stretches], said_s, time_s)
        )
        if late_s < 0 or not is_possible:
            said_s = time_s
        latest_s = max(latest_s, said_s)  # they stay in their order
        yield latest_s if latest_s < time_s else time_s


def _offsets_s(life: _Life) -> Mapping[float, float]:
    """Offset of a life's clock in each stretch of the run: the least of those around it."""
    least_s: dict[float, float] = {}
    for event, node_s in life:
        stretch, offset_s = event.time_s // _BUCKET_S, event.time_s - node_s
        if offset_s < least_s.get(stretch, math.inf):
            least_s[stretch] = offset_s
    reach = range(-_BUCKETS, _BUCKETS + 1)
    return {
        stretch: min(least_s.get(stretch + far, math.inf) for far in reach) for stretch in least_s
    }
