"""trace.pftrace of a run: its story and its events, drawn on tracks.

    story ─► phases, lives, states, faults, streams, effects: slices
    events ─► instants; steps, rounds: slices, only some of them in a long run
    samples ─► counters

├ process.kill on learner-0, learner-2 ────────────────────────────┤     a fault
├ asked ┤├ injecting ┤├ in force ──────────────────────┤├ healing ─┤
life   ├ incarnation 1 ──────────┤        ├ incarnation 2 ────────────    a node
state  ├ stepping ┤├ suspected ──┤├ dead ─┤├ rejoining ┤├ stepping ────
steps  ├┤├┤├┤├┤├┤                              ├┤├┤├┤├┤├┤├┤├┤
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import (
    EvidenceMeasured,
    FaultSkipped,
    HarnessStalled,
    LearnerStep,
    LinkClosed,
    OfInjection,
    OfLearner,
)
from chaoslab.core.private_files import replace_file
from chaoslab.record.history import History
from chaoslab.report.samples import COUNTS, Sample, every, rate_curve, thinned
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Fault, Stretch
from chaoslab.report.trace.rounds import draw_rounds
from chaoslab.report.trace.writer import Details, TraceWriter
from chaoslab.report.wording import began_ns

TRACE_FILE = "trace.pftrace"
_STEPS_MOST = 40_000
"""Slices of steps, of all learners together."""
_SAMPLES_MOST, _SAMPLES_LEAST = 100_000, 60
"""Most samples of all counters together, and fewest of each."""
_MARKS = (
    Kind.BASELINE_MEASURED, Kind.ABORT_FIRED, Kind.RUN_SETTLED, Kind.RUN_FINISHED,
    Kind.JANITOR_DIED, Kind.SIGNAL_FAILED, Kind.LINK_REMADE, Kind.LINK_LOST, Kind.DISK_BLOCKED,
    Kind.DISK_FREED, Kind.RESIDUE_FOUND, Kind.EVALUATION_MEASURED,
)  # fmt: skip
_WORK = (
    Kind.LEARNER_COMPILED, Kind.LEARNER_JOINED, Kind.LEARNER_FENCED, Kind.LEARNER_NOTICED,
    Kind.LEARNER_LEFT, Kind.HOST_LOST, Kind.CHECKPOINT_SAVED, Kind.CHECKPOINT_FAILED,
    Kind.CHECKPOINT_FOUND, Kind.CHECKPOINT_GIVEN, Kind.UPDATE_TAMPERED, Kind.MEMBER_JOINED,
    Kind.MEMBER_SUSPECTED, Kind.MEMBER_RECOVERED, Kind.MEMBER_LEFT, Kind.PUSH_REJECTED,
    Kind.PUSH_BOUNDED,
)  # fmt: skip
_OF_FAULTS = (Kind.FAULT_STEPPED, Kind.FAULT_HEAL_FAILED, Kind.EVIDENCE_MEASURED)


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
    story = RunStory.of(timed.events)
    drawing = _Drawing(history=timed, story=story)
    drawing.run()
    drawing.faults()
    rounds = drawing.trace.track("rounds")
    drawing.nodes()
    draw_rounds(timed, [*story.merges.values()], drawing.trace, rounds, drawing.work)
    drawing.links()
    drawing.draw_counters()
    return drawing.trace.to_bytes(began_ns=began_ns(history) or 0)


@dataclass(slots=True, kw_only=True)
class _Drawing:
    """One trace while it is drawn."""

    history: History
    story: RunStory
    trace: TraceWriter = field(default_factory=TraceWriter)
    _work: dict[str, int] = field(default_factory=dict)
    _nodes: int = 0
    """The group of all nodes."""
    _counters: list[tuple[str, str, int, Sequence[Sample]]] = field(default_factory=list)
    """Name, unit, group and samples."""

    # ---------------------------------------------------------------- the run

    def run(self) -> None:
        """Phases, what disturbed or ended the run, counts of the whole."""
        group = self.trace.track("run")
        phases, marks = self.trace.track("phases", group), self.trace.track("marks", group)
        for (from_s, phase), (to_s, _) in pairwise([*self.story.phases, (self.story.end_s, "")]):
            self.trace.slice(phases, from_s, to_s, phase)
        for event in self.history.of(HarnessStalled):
            with suppress(MalformedEvent):  # the verdict has a finding that says so
                said = event.payload
                self.trace.slice(marks, said.since_s, event.time_s, said.what.removeprefix("the "))
        self._instants(marks, self.history.of(*_MARKS))
        samples = self.story.samples
        for name in COUNTS:
            who = f"{self.story.who}s"
            self._count(f"{who} {name}", who, group, samples.learners[name])
        for kind, added in (("trained", samples.trained), ("committed", samples.committed)):
            rates = rate_curve(added, self.story.end_s, _SAMPLES_MOST // 50)
            unit = f"{self.story.counted}/s"
            self._count(f"{unit} {kind}", unit, group, rates)
        for name, found in samples.cores.items():
            self._count(f"cores {name}", "cores", group, found)

    def _instants(self, track: int, events: Iterable[Event]) -> None:
        for event in events:
            self._instant(track, event, event.kind.value)

    def _instant(self, track: int, event: Event, name: str) -> None:
        self.trace.instant(track, event.time_s, name, {"seq": event.seq, **event.data})

    # ---------------------------------------------------------------- faults

    def faults(self) -> None:
        """A track for each injection, named as its entry of the plan."""
        group = self.trace.track("faults")
        tracks: dict[str, int] = {}
        for fault in self.story.faults.values():
            tracks[fault.injection] = self.trace.track(fault.spec or fault.fault, group)
            self._fault(tracks[fault.injection], fault)
        for event in self.history.of(*_OF_FAULTS):
            with suppress(MalformedEvent):
                said, name = event.payload, event.kind.value
                if isinstance(said, EvidenceMeasured):
                    name = f"evidence: {said.status}"
                if isinstance(said, OfInjection | EvidenceMeasured) and said.injection in tracks:
                    self._instant(tracks[said.injection], event, name)
        for event in self.history.of(FaultSkipped):
            with suppress(MalformedEvent):
                track = self.trace.track(event.payload.spec or event.payload.fault, group)
                self._instant(track, event, f"skipped: {event.payload.fault}")

    def _fault(self, track: int, fault: Fault) -> None:
        """An injection from its trigger, or its beginning, to its heal."""
        asked_s = fault.from_s if fault.asked_s is None else min(fault.asked_s, fault.from_s)
        end_s = self.story.end_s if fault.healed_s is None else fault.healed_s
        targets = ", ".join(fault.targets)
        details: Details = {
            "injection": fault.injection,
            "targets": targets,
            "asked_s": fault.asked_s,
            "ended": None if fault.healed_s is None else f"fault.{fault.status}",
            **fault.details,
        }
        self.trace.slice(track, asked_s, end_s, f"{fault.fault} on {targets}", details)
        stages = [(asked_s, "asked"), (fault.from_s, "injecting"), (fault.injected_s, "in force"),
                  (fault.healing_s, "healing")]  # fmt: skip
        begun = [(from_s, stage) for from_s, stage in stages if from_s is not None]
        for (from_s, stage), (to_s, _) in pairwise([*begun, (end_s, "")]):
            if to_s > from_s or stage != "asked":
                self.trace.slice(track, from_s, to_s, stage)

    # ---------------------------------------------------------------- nodes

    def nodes(self) -> None:
        """Lives, states, steps and work of each node."""
        self._nodes = self.trace.track("nodes")
        steps = self._steps()
        together = every(sum(map(len, steps.values())), _STEPS_MOST)
        for name, node in self.story.nodes.by_name.items():
            group, life, state, row = self._rows(name)
            for one in node.lives:
                self._stretch(life, one, f"incarnation {one.details['incarnation']}")
            spans = [(span.from_s, span.state.value) for span in node.spans]
            for (from_s, doing), (to_s, _) in pairwise([*spans, (self.story.end_s, "")]):
                self.trace.slice(state, from_s, to_s, doing)
            self._draw_steps(row, steps[name], together)
            self._count("loss", "", group, self.story.samples.losses[name])
            self._count("step time", "ms", group, self.story.samples.step_ms[name])
        for event in self.history.of(*_WORK):
            with suppress(MalformedEvent):
                if isinstance(event.payload, OfLearner):
                    self._instants(self.work(event.payload.learner), [event])

    def _rows(self, name: str) -> tuple[int, int, int, int]:
        """Group, life, state and steps of a node."""
        group = self.trace.track(name, self._nodes)
        life, state, steps, self._work[name] = (
            self.trace.track(row, group) for row in ("life", "state", "steps", "work")
        )
        return group, life, state, steps

    def work(self, name: str) -> int:
        """The track of what a node did at single times."""
        if name not in self._work:
            self._rows(name)
        return self._work[name]

    def _steps(self) -> Mapping[str, list[Event[LearnerStep]]]:
        """The reports of steps of each learner, those that can be read."""
        found: defaultdict[str, list[Event[LearnerStep]]] = defaultdict(list)
        for event in self.history.of(LearnerStep):
            with suppress(MalformedEvent):
                said = event.payload
                _ = (said.steps, said.step_s, said.step, said.loss, said.waited_s, said.incarnation)
                found[said.learner].append(event)
        return found

    def _draw_steps(self, row: int, reports: Sequence[Event[LearnerStep]], together: int) -> None:
        """Draw slices of steps; if there are very many, several steps share one."""
        free_s = 0.0
        for at in range(0, len(reports), together):
            some = [one.payload for one in reports[at : at + together]]
            to_s = reports[min(at + together, len(reports)) - 1].time_s
            began_s = reports[at].time_s - some[0].steps * some[0].step_s
            count = sum(one.steps for one in some)
            details: dict[str, Json] = {
                "last step": some[-1].step,
                "steps": count,
                "loss": some[-1].loss,
                "waited_s": sum(one.waited_s for one in some) or None,
                "incarnation": some[-1].incarnation,
            }
            name = "step" if count == 1 else f"{count} steps"
            self.trace.slice(row, min(max(free_s, began_s), to_s), to_s, name, details)
            free_s = to_s

    def _stretch(self, track: int, one: Stretch, name: str, more: Details | None = None) -> None:
        to_s = self.story.end_s if one.to_s is None else one.to_s
        self.trace.slice(track, one.from_s, to_s, name, {**one.details, **(more or {})})

    # ---------------------------------------------------------------- links

    def links(self) -> None:
        """Streams that are open, effects in force, and what both ends measured."""
        group = self.trace.track("links")
        samples, story = self.story.samples, self.story
        measured = {name for name, _ in samples.rates}
        refused = defaultdict[str, list[Event[LinkClosed]]](list)
        for event in self.history.of(LinkClosed):
            with suppress(MalformedEvent):
                if not event.payload.was_open:
                    refused[event.payload.learner].append(event)
        for name in sorted({*story.links, *measured}):
            link, own = story.links.get(name), self.trace.track(name, group)
            stream = self.trace.track("stream", own)
            for event in refused[name]:
                self._instant(stream, event, "connection failed")
            for one in link.streams if link else ():
                self._stretch(stream, one, "open")
            for effect in link.effects if link else ():
                way = "" if effect.direction == "both" else f" {effect.direction}"
                about: Details = {"injection": effect.injection, "seq": effect.seq}
                track = self.trace.track("effects", own)
                self._stretch(track, effect, f"{effect.effect}{way}", about)
            for way in ("up", "down"):
                self._count(f"payload rate {way}", "kB/s", own, samples.rates[name, way])
            self._count("round trip", "ms", own, samples.round_trips_ms[name])

    # ---------------------------------------------------------------- counters

    def _count(self, name: str, unit: str, group: int, samples: Sequence[Sample]) -> None:
        if samples:
            self._counters.append((name, unit, group, samples))

    def draw_counters(self) -> None:
        """All of them: the more there are, the fewer samples each has."""
        most = max(_SAMPLES_LEAST, _SAMPLES_MOST // max(1, len(self._counters)))
        for name, unit, group, samples in self._counters:
            counter = self.trace.counter(name, group, unit=unit)
            for time_s, value in thinned(samples, most):
                self.trace.count(counter, time_s, value)
