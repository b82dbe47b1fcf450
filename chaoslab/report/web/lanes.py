"""A lane for each learner and for the syncer: what it was doing when, and in which process.

    ViewModel (the live view's fold) ─► state of a learner now ─► Span(from, state, incarnation)
    round.merged, learner.adopted ─────► marks: it contributed, it adopted a fragment

The states are those of the live view, so that a run looks the same while it goes on and after it.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.report.lanes import LaneState
from chaoslab.report.view import ViewModel
from chaoslab.report.web.buckets import Grid, Marks, digits

_SPANS_MOST = 240
SYNCER = "syncer"


class Span(NamedTuple):
    """From `from_s` to the next span."""

    from_s: float
    state: str
    incarnation: int


@dataclass(slots=True, kw_only=True)
class _Lane:
    contributed: Marks
    adopted: Marks
    spans: list[Span] = field(default_factory=list)

    def enter(self, time_s: float, state: str, incarnation: int) -> None:
        before = self.spans[-1] if self.spans else None
        if before is None or before.state != state or before.incarnation != incarnation:
            self.spans.append(Span(time_s, state, incarnation))


class Lanes:
    """The lanes, kept up by every event after the view has seen it."""

    def __init__(self, view: ViewModel, grid: Grid) -> None:
        self._view, self._grid = view, grid
        self._lanes: dict[str, _Lane] = {}
        self._syncer: str | None = None
        """The name of its node."""

    @property
    def width_s(self) -> float:
        """Width of the buckets of the marks."""
        return self._grid.width_s

    def _lane(self, name: str) -> _Lane:
        if name not in self._lanes:
            self._lanes[name] = _Lane(contributed=Marks(self._grid), adopted=Marks(self._grid))
        return self._lanes[name]

    def _begun(self, event: Event[payloads.RunStarted]) -> None:
        for name in self._view.lanes:
            self._note(name, event.time_s)

    def _of_learner(self, event: Event[payloads.OfLearner]) -> None:
        self._note(event.payload.learner, event.time_s)

    def _adopted(self, event: Event[payloads.LearnerAdopted]) -> None:
        self._lane(event.payload.learner).adopted.add(event.time_s)

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        for contributor in event.payload.contributors:
            self._lane(contributor.learner).contributed.add(event.time_s)
            self._note(contributor.learner, event.time_s)
        self._syncer_is("serving", event.time_s, only_from={LaneState.PAUSED})

    def _node_started(self, event: Event[payloads.NodeStarted]) -> None:
        said = event.payload
        if said.role == SYNCER:
            self._syncer = said.node
            self._lane(said.node).enter(event.time_s, LaneState.STARTING, said.incarnation)
        self._note(said.node, event.time_s)

    def _node_exited(self, event: Event[payloads.NodeExited]) -> None:
        is_over = self._view.phase in {"stop", "evaluate"}
        if event.payload.node == self._syncer:
            self._syncer_is(LaneState.ENDED if is_over else LaneState.DEAD, event.time_s)
        self._note(event.payload.node, event.time_s)

    def _node_probed(self, event: Event[payloads.NodeProbed]) -> None:
        if event.payload.node == self._syncer and event.payload.state == "T":
            self._syncer_is(LaneState.PAUSED, event.time_s)
        self._note(event.payload.node, event.time_s)

    def _syncer_said(self, event: Event) -> None:
        self._syncer_is(_SYNCER_STATES[event.kind], event.time_s)

    def _disk_said(self, event: Event[payloads.SyncerBlocked | payloads.SyncerFreed]) -> None:
        if not event.payload.is_snapshot:
            self._syncer_said(event)

    def _syncer_is(
        self, state: str, time_s: float, only_from: Collection[str] | None = None
    ) -> None:
        lane = self._lanes.get(self._syncer or "")
        if lane and lane.spans and (only_from is None or lane.spans[-1].state in only_from):
            lane.enter(time_s, state, lane.spans[-1].incarnation)

    def _note(self, learner: str, time_s: float) -> None:
        now = self._view.lanes.get(learner)
        if now is not None:
            self._lane(learner).enter(time_s, now.state.value, now.incarnation)

    def to_json(self) -> Sequence[Json]:
        """The syncer first, then the learners."""
        first = [self._syncer] if self._syncer in self._lanes else []
        names = [*first, *(name for name in self._lanes if name != self._syncer)]
        return [_json(name, self._lanes[str(name)]) for name in names]

    FOLDS: ClassVar[Mapping[Kind, Callable[["Lanes", Event[Any]], None]]] = {
        Kind.RUN_STARTED: _begun,
        Kind.NODE_STARTED: _node_started,
        Kind.NODE_EXITED: _node_exited,
        Kind.NODE_PROBED: _node_probed,
        Kind.LEARNER_STEP: _of_learner,
        Kind.LEARNER_ADOPTED: _adopted,
        Kind.MEMBER_JOINED: _of_learner,
        Kind.MEMBER_SUSPECTED: _of_learner,
        Kind.MEMBER_RECOVERED: _of_learner,
        Kind.MEMBER_LEFT: _of_learner,
        Kind.ROUND_MERGED: _merged,
        Kind.SYNCER_READY: _syncer_said,
        Kind.SYNCER_BLOCKED: _disk_said,
        Kind.SYNCER_FREED: _disk_said,
        Kind.SYNCER_STOPPED: _syncer_said,
    }


_SYNCER_STATES: Mapping[Kind, str] = {
    Kind.SYNCER_READY: "serving",
    Kind.SYNCER_BLOCKED: "blocked",
    Kind.SYNCER_FREED: "serving",
    Kind.SYNCER_STOPPED: LaneState.ENDED,
}


def _json(name: str | None, lane: _Lane) -> Mapping[str, Json]:
    spans = _longest(lane.spans)
    return {
        "node": name,
        "spans": [[digits(one.from_s, 6), one.state, one.incarnation] for one in spans],
        "contributed": lane.contributed.to_json(),
        "adopted": lane.adopted.to_json(),
    }


def _longest(spans: Sequence[Span]) -> Sequence[Span]:
    """All spans, or of very many those that are long enough to be drawn."""
    least_s = 0.01
    while len(spans) > _SPANS_MOST:
        ends = [*(one.from_s for one in spans[1:]), math.inf]
        spans = [
            one for one, end_s in zip(spans, ends, strict=True) if end_s - one.from_s >= least_s
        ]
        least_s *= 2
    return spans
