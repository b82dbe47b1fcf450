"""A run as Prometheus metrics, served while it goes on.

    Event ─► Metrics.see ─► gauges and counters ◄─ GET /metrics ◄─ Prometheus

An observer. The label `learner` has as many values as the plan has learners, `fault` as many as
the plan names kinds, `spec` as many as it has faults, `target` as many as there are nodes; nothing
else grows. With `--repeat` counters go on from run to run. Events of the twin are not counted, as
in the verdict. Whom a fault hits is told once it is injected, never while it waits for an operator.

It needs prometheus-client, the extra `chaoslab[metrics]`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core import payloads
from chaoslab.core.errors import AbilityError, PlanError
from chaoslab.core.events import Event, Kind
from chaoslab.core.payloads import Action, Obstacle, RunStarted

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
except ImportError as error:
    raise AbilityError(
        "--metrics needs prometheus-client: pip install 'chaoslab[metrics]'"
    ) from error

PHASES = ("start", "baseline", "inject", "settle", "stop", "evaluate", "twin")
_DECISIONS = frozenset({Action.GO, Action.SKIP})
_ENDS_OF_WAITS = frozenset({Obstacle.OPERATOR, Obstacle.NO_TRIGGER})
_COUNTS = ("alive", "believed", "stepping", "contributing")


class Metrics:
    """The fold of events into metrics, in a registry of its own."""

    def __init__(self) -> None:
        """All of them, without a value for what was not seen yet."""
        self.registry = CollectorRegistry()
        gauge, counter = self._gauge, self._counter
        self._info = gauge("run_info", "The run that goes on", "plan", "seed", "fleet", "algorithm")
        self._phase = gauge("phase", "1 for the phase that the run is in", "phase")
        self._time_s = gauge("run_seconds", "Time since the run began, at the last event")
        self._learners = gauge(
            "learners", "Learners with a process, a membership, steps, merged work", "count"
        )
        self._step = gauge("learner_step", "Training step that a learner has reached", "learner")
        self._step_s = gauge("learner_step_seconds", "Mean duration of its last steps", "learner")
        self._loss = gauge("learner_loss", "Training loss at its last report", "learner")
        self._incarnation = gauge("learner_incarnation", "Number of its process", "learner")
        self._committed = gauge("committed_tokens", "Tokens whose work was merged, in this run")
        self._usual_tokens = gauge(
            "baseline_tokens_per_second", "Committed in the baseline; 0 before"
        )
        self._gap_s = gauge("longest_gap_seconds", "Longest pause of merges since the baseline")
        self._last_s = gauge("last_round_seconds", "Time of the last merge since the run began")
        self._active = gauge("faults_active", "Injections that are not healed", "fault")
        self._broken = gauge(
            "fault_open", "1 while a fault is not healed", "spec", "fault", "target"
        )
        self._held = gauge("fault_held", "1 while a fault waits for an operator", "spec")
        self._steps = counter("learner_steps", "Training steps made", "learner")
        self._rounds = counter("rounds_merged", "Rounds merged")
        self._injected = counter("faults_injected", "Injections that took place", "fault")
        self._healed = counter("faults_healed", "Injections that were seen to be healed", "fault")
        self._failed = counter("faults_failed", "Injections that were refused", "fault")
        self._exits = counter("node_exits", "Processes of nodes that ended", "role")
        self._stalled_s = counter("harness_stalled_seconds", "Time for which the harness stood")
        self._runs = counter("runs", "Runs judged", "plan", "outcome")
        self._plan = ""
        self._is_twin = self._has_baseline = False
        self._merged_s: float | None = None
        self._longest_s = 0.0
        self._open: dict[str, tuple[str, Sequence[tuple[str, str, str]]]] = {}
        """By injection that is not healed: its fault, and the labels of `fault_open`."""
        self._waiting: set[str] = set()
        """Entries of the plan that wait for an operator."""
        self._roles: dict[str, str] = {}

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"chaoslab_{name}", about, labels, registry=self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"chaoslab_{name}", about, labels, registry=self.registry)

    def see(self, event: Event) -> None:
        """Take one event in."""
        if event.kind is Kind.RUN_FINISHED:
            self._is_twin = True  # if anything follows
            self._waits_for_nobody()
        if event.kind is Kind.RUN_STARTED and self._is_twin:
            self._in_phase("twin")
        if self._is_twin:
            return
        self._time_s.set(event.time_s)
        fold = self._FOLDS.get(event.kind)
        if fold is not None:
            fold(self, event)

    def judged(self, verdict: Verdict) -> None:
        """Count the verdict; what follows is another run."""
        self._runs.labels(self._plan, verdict.outcome.value).inc()
        self._is_twin = False

    # ---------------------------------------------------------------- one method per kind of event

    def _started(self, event: Event[RunStarted]) -> None:
        said = event.payload
        about_run = (self._info, self._step, self._step_s, self._loss, self._incarnation)
        for each in (*about_run, self._broken):
            each.clear()
        self._waits_for_nobody()
        self._plan, self._merged_s, self._has_baseline = said.plan, None, False
        self._longest_s = 0.0
        self._open.clear()
        self._info.labels(said.plan, said.seed, said.fleet, said.algorithm).set(1)
        for gauge in (self._committed, self._usual_tokens, self._gap_s, self._last_s):
            gauge.set(0)
        for fault in {entry.fault for entry in said.entries}:
            self._active.labels(fault).set(0)
            for counter in (self._injected, self._healed, self._failed):
                counter.labels(fault)
        for outcome in Outcome:
            self._runs.labels(said.plan, outcome.value)

    def _phase_entered(self, event: Event[payloads.PhaseEntered]) -> None:
        self._in_phase(event.payload.phase)

    def _in_phase(self, entered: str) -> None:
        for phase in PHASES:
            self._phase.labels(phase).set(phase == entered)

    def _baseline(self, event: Event[payloads.BaselineMeasured]) -> None:
        self._has_baseline = True
        self._usual_tokens.set(event.payload.tokens_per_s or 0)

    def _counted(self, event: Event[payloads.CountsSampled]) -> None:
        for count in _COUNTS:
            self._learners.labels(count).set(getattr(event.payload, count))

    def _node_started(self, event: Event[payloads.NodeStarted]) -> None:
        said = event.payload
        self._roles[said.node] = said.role
        if said.role == "learner":
            self._incarnation.labels(said.node).set(said.incarnation)

    def _node_exited(self, event: Event[payloads.NodeExited]) -> None:
        self._exits.labels(self._roles.get(event.payload.node, "unknown")).inc()

    def _stepped(self, event: Event[payloads.LearnerStep]) -> None:
        said = event.payload
        self._step.labels(said.learner).set(said.step)
        self._steps.labels(said.learner).inc(said.steps)
        if said.steps:  # none since its last report: there is no mean
            self._step_s.labels(said.learner).set(said.step_s)
        self._loss.labels(said.learner).set(said.loss)

    def _merged(self, event: Event[payloads.RoundMerged]) -> None:
        self._rounds.inc()
        self._committed.set(event.payload.committed_tokens)
        if self._has_baseline and self._merged_s is not None:
            self._longest_s = max(event.time_s - self._merged_s, self._longest_s)
            self._gap_s.set(self._longest_s)
        self._merged_s = event.time_s
        self._last_s.set(event.time_s)

    def _fault_waits(self, event: Event[payloads.FaultHeld]) -> None:
        self._held.labels(event.payload.spec).set(1)
        self._waiting.add(event.payload.spec)

    def _acted(self, event: Event[payloads.OperatorActed]) -> None:
        if event.payload.action in _DECISIONS:
            self._waits_no_longer(event.payload.spec)

    def _fault_skipped(self, event: Event[payloads.FaultSkipped]) -> None:
        if event.payload.obstacle in _ENDS_OF_WAITS:
            self._waits_no_longer(event.payload.spec)

    def _fault_begun(self, event: Event[payloads.FaultInjecting]) -> None:
        self._waits_no_longer(event.payload.spec)

    def _waits_for_nobody(self) -> None:
        self._waiting.clear()
        self._held.clear()

    def _waits_no_longer(self, spec: str) -> None:
        if spec in self._waiting:
            self._waiting.remove(spec)
            self._held.remove(spec)

    def _fault_injected(self, event: Event[payloads.FaultInjected]) -> None:
        said = event.payload
        self._injected.labels(said.fault).inc()
        labels = [(said.spec, said.fault, target) for target in said.targets]
        self._open[said.injection] = (said.fault, labels)
        self._active.labels(said.fault).inc()
        for each in labels:
            self._broken.labels(*each).set(1)

    def _fault_failed(self, event: Event[payloads.FaultFailed]) -> None:
        self._failed.labels(event.payload.fault).inc()
        self._no_longer_held(event.payload.injection)

    def _fault_healed(self, event: Event[payloads.FaultHealed]) -> None:
        self._healed.labels(event.payload.fault).inc()
        self._no_longer_held(event.payload.injection)

    def _no_longer_held(self, injection: str) -> None:
        fault, labels = self._open.pop(injection, ("", ()))
        if fault:
            self._active.labels(fault).dec()
        for each in labels:
            self._broken.remove(*each)

    def _stalled(self, event: Event[payloads.HarnessStalled]) -> None:
        self._stalled_s.inc(event.payload.silent_s)

    _FOLDS: ClassVar[Mapping[Kind, Callable[["Metrics", Event[Any]], None]]] = {
        Kind.RUN_STARTED: _started,
        Kind.PHASE_ENTERED: _phase_entered,
        Kind.BASELINE_MEASURED: _baseline,
        Kind.COUNTS_SAMPLED: _counted,
        Kind.NODE_STARTED: _node_started,
        Kind.NODE_EXITED: _node_exited,
        Kind.LEARNER_STEP: _stepped,
        Kind.ROUND_MERGED: _merged,
        Kind.FAULT_HELD: _fault_waits,
        Kind.OPERATOR_ACTED: _acted,
        Kind.FAULT_SKIPPED: _fault_skipped,
        Kind.FAULT_INJECTING: _fault_begun,
        Kind.FAULT_INJECTED: _fault_injected,
        Kind.FAULT_FAILED: _fault_failed,
        Kind.FAULT_HEALED: _fault_healed,
        Kind.HARNESS_STALLED: _stalled,
    }


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
