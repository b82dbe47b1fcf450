"""Tracks of the run as a whole: its phases, what ended or disturbed it, and its counters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from chaoslab.core import payloads
from chaoslab.core.events import Event, Kind
from chaoslab.report.samples import RunSamples
from chaoslab.report.thinning import Sample, thinned
from chaoslab.report.trace.writer import TraceWriter

_SAMPLES_MOST = 2000
"""Of each counter."""


class RunTracks:
    """The fold over events of the run itself."""

    def __init__(self, trace: TraceWriter, samples: RunSamples) -> None:
        self._trace, self._samples = trace, samples
        group = trace.track("run")
        self._phases = trace.track("phases", group)
        self._marks = trace.track("marks", group)
        self._group = group
        self._phase: tuple[float, str] | None = None

    def _phase_entered(self, event: Event[payloads.PhaseEntered]) -> None:
        self._end_phase(event.time_s)
        self._phase = event.time_s, event.payload.phase

    def _end_phase(self, time_s: float) -> None:
        if self._phase is not None:
            self._trace.slice(self._phases, self._phase[0], time_s, self._phase[1])

    def _stalled(self, event: Event[payloads.HarnessStalled]) -> None:
        since_s = event.payload.since_s
        from_s = event.time_s - event.payload.silent_s if since_s is None else since_s
        self._trace.slice(
            self._marks, from_s, event.time_s, event.payload.what.removeprefix("the ")
        )

    def _mark(self, event: Event) -> None:
        details = {"seq": event.seq, **event.data}
        self._trace.instant(self._marks, event.time_s, event.kind.value, details)

    def draw(self, end_s: float) -> None:
        """What can be drawn when all events were seen."""
        self._end_phase(end_s)
        samples = self._samples
        for name, found in samples.counts.items():
            self._count(f"learners {name}", "learners", found)
        self._count("tokens/s trained", "tokens/s", samples.trained)
        self._count("tokens/s committed", "tokens/s", samples.committed)
        for name, found in samples.cores.items():
            self._count(f"cores {name}", "cores", found)

    def _count(self, name: str, unit: str, samples: Sequence[Sample]) -> None:
        if samples:
            counter = self._trace.counter(name, self._group, unit=unit)
            for time_s, value in thinned(samples, _SAMPLES_MOST):
                self._trace.count(counter, time_s, value)

    FOLDS: ClassVar[Mapping[Kind, Callable[["RunTracks", Event[Any]], None]]] = {
        Kind.PHASE_ENTERED: _phase_entered,
        Kind.HARNESS_STALLED: _stalled,
        Kind.BASELINE_MEASURED: _mark,
        Kind.ABORT_FIRED: _mark,
        Kind.RUN_SETTLED: _mark,
        Kind.RUN_FINISHED: _mark,
        Kind.JANITOR_DIED: _mark,
        Kind.SIGNAL_FAILED: _mark,
        Kind.LINK_REMADE: _mark,
        Kind.LINK_LOST: _mark,
        Kind.DISK_BLOCKED: _mark,
        Kind.DISK_FREED: _mark,
        Kind.RESIDUE_FOUND: _mark,
        Kind.EVALUATION_MEASURED: _mark,
    }
