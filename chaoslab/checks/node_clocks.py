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
from dataclasses import dataclass

from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import HarnessStalled, NodeStarted
from chaoslab.record.journal import History

_UNNOTED_S = 1.0
"""A harness may hear of an event so late without `harness.stalled` to explain it."""
_BUCKET_S, _BUCKETS = 5.0, 2
"""Clocks may drift, so an offset is taken from so many stretches before and after an event."""

_Life = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stretch in which the harness stood still, so that it heard of nothing."""

    start_s: float
    end_s: float
    event: Event[HarnessStalled]


def stalls(history: History) -> tuple[Stall, ...]:
    """Every stretch in which the harness noted that it had stood still, in order."""
    return tuple(map(_stall, history.of(HarnessStalled)))


def by_node_clocks(history: History) -> History:
    """The same record, and its twin, with the events of nodes at the times at which they happened.

    Events without a clock of their own, and those whose clock explains nothing, stay as they are.
    """
    lives = _lives(history.events)
    offsets = _offsets(history.events, lives)
    stood_still = stalls(history)
    latest_s: dict[_Life, float] = {}
    events = []
    for event, life in zip(history.events, lives, strict=True):
        if event.node_s is not None:
            time_s = _happened_s(event, event.node_s + _offset(event, life, offsets), stood_still)
            latest_s[life] = max(time_s, latest_s.get(life, -math.inf))
            events.append(event.at(min(event.time_s, latest_s[life])))
        else:
            events.append(event)
    control = by_node_clocks(history.control) if history.control else None
    return history.retimed(events, control=control)


def _happened_s(event: Event, said_s: float, stood_still: Sequence[Stall]) -> float:
    """When the event happened by its node's clock, if so long a way to the harness is possible."""
    explained_s = sum(
        max(0.0, min(stall.end_s, event.time_s) - max(stall.start_s, said_s))
        for stall in stood_still
    )
    is_possible = event.time_s - said_s <= _UNNOTED_S + explained_s
    return min(said_s, event.time_s) if is_possible else event.time_s


def _lives(events: Sequence[Event]) -> Sequence[_Life]:
    """For each event, its source and which life of it is speaking."""
    starts: dict[str, int] = defaultdict(int)
    found = []
    for event in events:
        if event.kind is Kind.NODE_STARTED and isinstance(event.payload, NodeStarted):
            starts[event.payload.node] += 1
        found.append((event.source, starts[event.source]))
    return found


def _offsets(events: Sequence[Event], lives: Sequence[_Life]) -> dict[tuple[_Life, int], float]:
    """The least offset of each life's clock in each stretch of the run."""
    least: dict[tuple[_Life, int], float] = {}
    for event, life in zip(events, lives, strict=True):
        if event.node_s is not None:
            place = (life, int(event.time_s // _BUCKET_S))
            least[place] = min(event.time_s - event.node_s, least.get(place, math.inf))
    return least


def _offset(event: Event, life: _Life, least: dict[tuple[_Life, int], float]) -> float:
    here = int(event.time_s // _BUCKET_S)
    around = range(here - _BUCKETS, here + _BUCKETS + 1)
    return min(least.get((life, bucket), math.inf) for bucket in around)


def _stall(event: Event[HarnessStalled]) -> Stall:
    """Records of older versions do not say since when it stood still."""
    since_s = event.payload.since_s
    start_s = event.time_s - event.payload.silent_s if since_s is None else since_s
    return Stall(start_s=start_s, end_s=event.time_s, event=event)
