"""Tracks of nodes: the syncer's processes, and for each learner processes, states, steps, work.

    life   ├ incarnation 1 ──────────┤        ├ incarnation 2 ─────────────
    state  ├ stepping ┤├ suspected ──┤├ dead ─┤├ rejoining ┤├ stepping ─────
    steps  ├┤├┤├┤├┤├┤                              ├┤├┤├┤├┤├┤├┤├┤
    work     ╷pushed ╷adopted ╷checkpoint

The states are those of the live view. Of very many steps several make one slice.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind
from chaoslab.report.lanes import LaneState
from chaoslab.report.thinning import Sample, every, thinned
from chaoslab.report.trace.writer import TraceWriter
from chaoslab.report.view import ViewModel

_STEPS_MOST = 40_000
"""Slices of steps, of all learners together."""
_SAMPLES_MOST, _SAMPLES_LEAST = 60_000, 100
"""Of all counters together, and of each at least."""


@dataclass(slots=True, kw_only=True)
class _Steps:
    """A report of some steps."""

    from_s: float
    to_s: float
    count: int
    last: int
    loss: float
    waited_s: float
    incarnation: int


@dataclass(slots=True, kw_only=True)
class _Node:
    group: int
    life: int
    state: int
    steps: int
    work: int
    alive: tuple[float, Mapping[str, Json]] | None = None
    """Since when, and what is known of the process."""
    is_in: tuple[float, str] | None = None
    """Its state and since when."""
    reports: list[_Steps] = field(default_factory=list)
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    """By name and unit of a counter."""


class NodeTracks:
    """The fold over events of nodes; `view` has seen an event before this does."""

    def __init__(self, trace: TraceWriter, view: ViewModel) -> None:
        self._trace, self._view = trace, view
        self._group = trace.track("nodes")
        self._nodes: dict[str, _Node] = {}

    def _node(self, name: str) -> _Node:
        if name not in self._nodes:
            group = self._trace.track(name, self._group)
            life, state, steps, work = (
                self._trace.track(row, group) for row in ("life", "state", "steps", "work")
            )
            self._nodes[name] = _Node(group=group, life=life, state=state, steps=steps, work=work)
        return self._nodes[name]

    def work(self, name: str) -> int:
        """The track of what a node did at single times."""
        return self._node(name).work

    def _note(self, event: Event) -> None:
        """The states in which this event leaves learners."""
        for name in self._concerned(event):
            lane = self._view.lanes.get(name)
            if lane is not None:
                self._enter(self._node(name), lane.state.value, event.time_s)

    def _concerned(self, event: Event) -> Iterable[str]:
        if isinstance(event.payload, payloads.RoundMerged):
            return [one.learner for one in event.payload.contributors]
        if isinstance(event.payload, payloads.RunStarted):
            return list(self._view.lanes)
        return [str(event.data.get("learner") or event.data.get("node"))]

    def _enter(self, node: _Node, state: str, time_s: float) -> None:
        if node.is_in is None or node.is_in[1] != state:
            if node.is_in is not None:
                self._trace.slice(node.state, node.is_in[0], time_s, node.is_in[1])
            node.is_in = time_s, state

    def _started(self, event: Event[payloads.NodeStarted]) -> None:
        said, node = event.payload, self._node(event.payload.node)
        node.alive = (
            event.time_s,
            {"incarnation": said.incarnation, "pid": said.pid, "role": said.role, "seq": event.seq},
        )
        self._note(event)

    def _exited(self, event: Event[payloads.NodeExited]) -> None:
        said, node = event.payload, self._node(event.payload.node)
        if node.alive is not None:
            ended = {"exit_code": said.exit_code, "signal": said.signal}
            self._end_life(node, event.time_s, ended)
        if said.node not in self._view.lanes and node.is_in is not None:
            is_over = self._view.phase in {"stop", "evaluate"}
            self._enter(node, LaneState.ENDED if is_over else LaneState.DEAD, event.time_s)
        self._note(event)

    def _end_life(self, node: _Node, time_s: float, ended: Mapping[str, Json]) -> None:
        if node.alive is not None:
            from_s, details = node.alive
            name = f"incarnation {details['incarnation']}"
            self._trace.slice(node.life, from_s, time_s, name, {**details, **ended})
            node.alive = None

    def _step(self, event: Event[payloads.LearnerStep]) -> None:
        said, node = event.payload, self._node(event.payload.learner)
        took_s = said.steps * said.step_s
        node.reports.append(
            _Steps(
                from_s=event.time_s - took_s,
                to_s=event.time_s,
                count=said.steps,
                last=said.step,
                loss=said.loss,
                waited_s=said.waited_s,
                incarnation=said.incarnation,
            )
        )
        if math.isfinite(said.loss):
            node.samples["loss", ""].append((event.time_s, said.loss))
        node.samples["step time", "ms"].append((event.time_s, 1000 * said.step_s))
        self._note(event)

    def _did(self, event: Event[payloads.OfLearner]) -> None:
        node = self._node(event.payload.learner)
        self._trace.instant(
            node.work, event.time_s, event.kind.value, {"seq": event.seq, **event.data}
        )
        self._note(event)

    def _syncer_said(self, event: Event) -> None:
        self._enter(self._node(event.source), _SYNCER_STATES[event.kind], event.time_s)

    def _disk_said(self, event: Event[payloads.SyncerBlocked | payloads.SyncerFreed]) -> None:
        if not event.payload.is_snapshot:
            self._syncer_said(event)

    # ------------------------------------------------------------------------------- drawing

    def draw(self, end_s: float) -> None:
        """Lives that did not end, states, steps, counters."""
        reports = sum(len(node.reports) for node in self._nodes.values())
        counters = sum(len(node.samples) for node in self._nodes.values())
        most = max(_SAMPLES_LEAST, _SAMPLES_MOST // max(1, counters))
        for node in self._nodes.values():
            self._end_life(node, end_s, {})
            if node.is_in is not None:
                self._trace.slice(node.state, node.is_in[0], end_s, node.is_in[1])
            self._draw_steps(node, every(reports, _STEPS_MOST))
            for (name, unit), samples in node.samples.items():
                counter = self._trace.counter(name, node.group, unit=unit)
                for time_s, value in thinned(samples, most):
                    self._trace.count(counter, time_s, value)

    def _draw_steps(self, node: _Node, together: int) -> None:
        free_s = 0.0
        for at in range(0, len(node.reports), together):
            some = node.reports[at : at + together]
            first, last = some[0], some[-1]
            count = sum(one.count for one in some)
            details: dict[str, Json] = {
                "last step": last.last,
                "steps": count,
                "loss": last.loss,
                "waited_s": sum(one.waited_s for one in some) or None,
                "incarnation": last.incarnation,
            }
            from_s = min(max(free_s, first.from_s), last.to_s)
            self._trace.slice(
                node.steps, from_s, last.to_s, "step" if count == 1 else f"{count} steps", details
            )
            free_s = last.to_s

    FOLDS: ClassVar[Mapping[Kind, Callable[["NodeTracks", Event[Any]], None]]] = {
        Kind.RUN_STARTED: _note,
        Kind.NODE_PROBED: _note,
        Kind.ROUND_MERGED: _note,
        Kind.NODE_STARTED: _started,
        Kind.NODE_EXITED: _exited,
        Kind.LEARNER_STEP: _step,
        **dict.fromkeys(
            (
                Kind.LEARNER_COMPILED, Kind.LEARNER_JOINED, Kind.LEARNER_FENCED,
                Kind.LEARNER_NOTICED, Kind.LEARNER_LEFT, Kind.HOST_LOST, Kind.CHECKPOINT_SAVED,
                Kind.CHECKPOINT_FAILED, Kind.CHECKPOINT_FOUND, Kind.CHECKPOINT_GIVEN,
                Kind.UPDATE_TAMPERED, Kind.MEMBER_JOINED, Kind.MEMBER_SUSPECTED,
                Kind.MEMBER_RECOVERED, Kind.MEMBER_LEFT, Kind.PUSH_REJECTED, Kind.PUSH_BOUNDED,
            ),
            _did,
        ),
        **dict.fromkeys((Kind.SYNCER_READY, Kind.SYNCER_STOPPED), _syncer_said),
        **dict.fromkeys((Kind.SYNCER_BLOCKED, Kind.SYNCER_FREED), _disk_said),
    }  # fmt: skip


_SYNCER_STATES: Mapping[Kind, str] = {
    Kind.SYNCER_READY: "serving",
    Kind.SYNCER_BLOCKED: "blocked",
    Kind.SYNCER_FREED: "serving",
    Kind.SYNCER_STOPPED: "training ended",
}
