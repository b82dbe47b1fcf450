"""trace.pftrace of a run: every event goes to the tracks that draw it, then all become bytes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.private_files import replace_file
from chaoslab.record.journal import History
from chaoslab.report.beginning import began_ns
from chaoslab.report.samples import RunSamples
from chaoslab.report.trace.faults import FaultTracks
from chaoslab.report.trace.links import LinkTracks
from chaoslab.report.trace.nodes import NodeTracks
from chaoslab.report.trace.rounds import RoundTracks
from chaoslab.report.trace.run import RunTracks
from chaoslab.report.trace.writer import TraceWriter
from chaoslab.report.view import ViewModel

TRACE_FILE = "trace.pftrace"


def write_trace(directory: Path, history: History) -> Path:
    """Write the trace of a run into its directory; its path.

    `history` is as it lies on disk. FleetError when the disk refuses.
    """
    path = directory / TRACE_FILE
    replace_file(path, trace_bytes(history))
    return path


def trace_bytes(history: History) -> bytes:
    """The trace of a record; of an empty one a trace without slices."""
    timed = as_it_happened(history)
    events = timed.events
    trace, view = TraceWriter(), ViewModel()
    run, faults = RunTracks(trace, RunSamples.of(timed)), FaultTracks(trace)
    nodes = NodeTracks(trace, view)
    rounds = RoundTracks(trace=trace, work=nodes.work)
    parts: tuple[Any, ...] = (run, faults, rounds, nodes, LinkTracks(trace))
    folds = _table(parts)
    for event in events:
        for fold in (view.see, *folds[event.kind]):
            try:
                fold(event)
            except MalformedEvent:  # the verdict has a finding that says so
                continue
    end_s = max((event.time_s for event in events), default=0.0)
    for part in parts:
        part.draw(end_s)
    return trace.to_bytes(began_ns=began_ns(history) or 0)


def _table(parts: tuple[Any, ...]) -> Mapping[Kind, Sequence[Callable[[Event], object]]]:
    """What each kind of event is told to, in order."""
    return {
        kind: [part.FOLDS[kind].__get__(part) for part in parts if kind in part.FOLDS]
        for kind in Kind
    }
