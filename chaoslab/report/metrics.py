"""A run as Prometheus metrics, served while it goes on.

    Event ─► Metrics.see ─► RunStory, counters ◄─ collect ◄─ GET /metrics ◄─ Prometheus

An observer. The label `learner` has as many values as the plan has learners, `fault` as many as the
plan names kinds, `spec` as many as it has faults, `target` as many as there are nodes; nothing else
grows. With `--repeat` counters go on from run to run. Events of the twin are not counted, as in the
verdict. The targets of a fault are told once it is injected, never while it waits for an operator.

It needs prometheus-client, the extra `chaoslab[metrics]`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Event, Kind, MalformedEvent
from chaoslab.core.payloads import (
    FaultFailed,
    FaultHealed,
    FaultInjected,
    HarnessStalled,
    LearnerStep,
    NodeExited,
    RoundMerged,
    RunStarted,
)
from chaoslab.report.story import RunStory

try:
    from prometheus_client import CollectorRegistry, Counter, start_http_server
    from prometheus_client.core import GaugeMetricFamily
except ImportError as error:
    raise AbilityError(
        "--metrics needs prometheus-client: pip install 'chaoslab[metrics]'"
    ) from error

PHASES = ("start", "baseline", "inject", "settle", "stop", "evaluate", "interrupted", "twin")


class Metrics:
    """Gauges read from the story of the run when they are asked for, and counters of all runs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._story = RunStory()
        self._lock = Lock()
        """Guards the story, which the server's thread reads, too."""
        self._is_over = self._is_twin = False
        counter = self._counter
        self._steps = counter("learner_steps", "Training steps made", "learner")
        self._rounds = counter("rounds_merged", "Rounds merged")
        self._injected = counter("faults_injected", "Injections that took place", "fault")
        self._healed = counter("faults_healed", "Injections that were seen to be healed", "fault")
        self._failed = counter("faults_failed", "Injections that were refused", "fault")
        self._exits = counter("node_exits", "Processes of nodes that ended", "role")
        self._stalled_s = counter("harness_stalled_seconds", "Time for which the harness stalled")
        self._runs = counter("runs", "Runs judged", "plan", "outcome")
        self._faults: set[str] = set()
        """Kinds of fault that the plan names."""
        self.registry.register(self)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"chaoslab_{name}", about, labels, registry=self.registry)

    def see(self, event: Event) -> None:
        """Take one event in; those of the twin are not counted."""
        self._is_twin |= self._is_over and event.kind is Kind.RUN_STARTED
        if self._is_over:
            return
        self._is_over = event.kind is Kind.RUN_FINISHED  # what follows is its twin
        with self._lock, suppress(MalformedEvent):  # the story counts it
            self._story.see(event)
            self._count(event)

    def judged(self, verdict: Verdict) -> None:
        """Count the verdict; what follows is another run."""
        self._runs.labels(self._story.plan, verdict.outcome.value).inc()
        self._is_over = self._is_twin = False

    def _count(self, event: Event) -> None:
        match event.payload:
            case RunStarted() as said:
                self._faults = {entry.fault for entry in said.entries}
                for fault in self._faults:
                    for counter in (self._injected, self._healed, self._failed):
                        counter.labels(fault)
                for outcome in Outcome:
                    self._runs.labels(said.plan, outcome.value)
            case LearnerStep() as said:
                self._steps.labels(said.learner).inc(said.steps)
            case RoundMerged():
                self._rounds.inc()
            case NodeExited() as said:
                node = self._story.nodes.by_name.get(said.node)
                self._exits.labels(node.role if node else "unknown").inc()
            case FaultInjected() as said:
                self._injected.labels(said.fault).inc()
            case FaultHealed() as said:
                self._healed.labels(said.fault).inc()
            case FaultFailed() as said:
                self._failed.labels(said.fault).inc()
            case HarnessStalled() as said:
                self._stalled_s.inc(said.silent_s)

    # ---------------------------------------------------------------- gauges

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges as they are now; called by the registry."""
        with self._lock:
            found = [*self._of_run(), *self._of_learners(), *self._of_faults()]
        yield from found

    def _of_run(self) -> Iterator[GaugeMetricFamily]:
        story, rounds = self._story, self._story.rounds
        about = (story.plan, str(story.seed), story.fleet, story.algorithm)
        yield _gauge(
            "run_info", "The run that goes on", ("plan", "seed", "fleet", "algorithm"),
            [(about, 1.0)] if story.plan else [],
        )  # fmt: skip
        now = "twin" if self._is_twin else story.phase
        phases = [((phase,), float(phase == now)) for phase in PHASES if now]
        yield _gauge("phase", "1 for the phase that the run is in", ("phase",), phases)
        usual = story.baseline.tokens_per_s if story.baseline else None
        for name, meaning, value in (
            ("run_seconds", "Time since the run began, at the last event", story.now_s),
            ("committed_tokens", "Tokens, or steps of a script, merged in this run",
             rounds.committed_tokens),
            ("baseline_tokens_per_second", "Committed in the baseline; 0 before", usual or 0.0),
            ("longest_gap_seconds", "Longest pause of merges since the baseline",
             rounds.longest_gap_s if story.baseline else 0.0),
            ("last_round_seconds", "Time of the last merge since the run began",
             rounds.last_s or 0.0),
        ):  # fmt: skip
            yield _gauge(name, meaning, (), [((), value)])

    def _of_learners(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge(
            "learners", "Learners with a process, a membership, steps, merged work", ("count",),
            [((name,), number) for name, number in self._story.counts.items()],
        )  # fmt: skip
        for name, about, field in (
            ("learner_step", "Training step that a learner has reached", "step"),
            ("learner_step_seconds", "Mean duration of its last steps", "step_s"),
            ("learner_loss", "Training loss at its last report", "loss"),
            ("learner_incarnation", "Number of its process", "incarnation"),
        ):
            found = [((one.name,), getattr(one, field)) for one in self._story.nodes.learners]
            known = [(labels, value) for labels, value in found if value is not None]
            yield _gauge(name, about, ("learner",), known)

    def _of_faults(self) -> Iterator[GaugeMetricFamily]:
        """Metrics of faults; none of a fault before it is injected."""
        is_open = [
            one for one in self._story.faults.values() if one.is_open and one.injected_s is not None
        ]
        active = [
            ((kind,), sum(one.fault == kind for one in is_open))
            for kind in sorted(self._faults | {one.fault for one in is_open})
        ]
        yield _gauge("faults_active", "Injections that are not healed", ("fault",), active)
        broken = [((one.spec, one.fault, name), 1.0) for one in is_open for name in one.targets]
        labels = ("spec", "fault", "target")
        yield _gauge("fault_open", "1 while a fault is not healed", labels, broken)
        held = (
            [] if self._story.outcome else [((spec,), 1.0) for spec in self._story.decisions.held]
        )
        yield _gauge("fault_held", "1 while a fault waits for an operator", ("spec",), held)


def _gauge(
    name: str, about: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(f"chaoslab_{name}", about, labels=labels)
    for said, value in values:
        gauge.add_metric(said, value)
    return gauge


# ---------------------------------------------------------------- serving


@contextmanager
def served(metrics: Metrics, address: str) -> Iterator[str]:
    """Serve them at `HOST:PORT`, or on this machine at `:PORT`; gives the URL. Port 0 takes any.

    PlanError if the address cannot be had.
    """
    host, port = _parsed(address)
    try:
        server, thread = start_http_server(port, addr=host, registry=metrics.registry)
    except OSError as error:
        raise PlanError(
            f"--metrics {address}: {error.strerror or error}; choose another port"
        ) from error
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise PlanError(f"--metrics {address}: write :PORT or HOST:PORT, such as :9464")
    return host.strip("[]") or "127.0.0.1", int(port)
