"""Payloads of events of the run itself, from the harness: phases, samples, limits, the end."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from chaoslab.core.events import Json, Kind, Payload


class RunOutcome(StrEnum):
    """How a run ended, independent of its findings."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"
    BROKEN = "broken"


class Need(StrEnum):
    """Requirement of checks that a run may lack by choice."""

    TWIN = "twin"
    """A fault-free twin."""
    WHOLE = "whole_training"
    """The training from its first step to its last."""
    STEP_TIME = "step_time"
    """A step time that learners keep."""


class PlanEntry(Payload):
    """An entry of the plan's `faults`."""

    spec: str
    fault: str
    injections: int
    """Number of its scheduled injections."""


class ScriptStarted(Payload):
    """A training that is not chaoslab's own, as far as it is known before it runs."""

    max_pause_s: float
    """Longest time without progress, beside a fault, that does not count as the end of training."""
    says_saved: bool
    """Whether it has a pattern for checkpoints that were saved."""


class RunStarted(Payload, kind=Kind.RUN_STARTED):
    """Plan, fleet and nodes of the run."""

    plan: str
    seed: int
    fleet: str
    algorithm: str
    """Algorithm, with the system of others that runs it, if any: "diloco by torchft"."""
    learners: tuple[str, ...]
    """Names of those that are there from the start."""
    reserve: tuple[str, ...] = ()
    """Names of those that may join later."""
    entries: tuple[PlanEntry, ...] = ()
    """Entries of the plan's `faults`, with the number of scheduled injections."""
    stop: Mapping[str, float] = field(default_factory=dict)
    """The stop rule, see `training.stop` in plans: training ends when one of `rounds`, `tokens`,
    `steps`, `time_s` and `loss` is reached."""
    script: ScriptStarted | None = None
    """The script; None: chaoslab's own learners train, or a system of others."""
    version: str
    """Version of chaoslab that made the record."""
    plan_digest: str = ""
    """SHA-256 of plan.resolved.yaml as it was carried out; empty without that file."""
    is_twin: bool = False
    """Whether it is a fault-free twin."""
    provenance: Mapping[str, Json] = field(default_factory=dict)
    """Digest of each part that affects training: a run and its twin have the same."""
    without: tuple[Need, ...] = ()
    """Requirements that it lacks by choice, so that checks which need them are left out."""

    @property
    def who(self) -> str:
        """Name in reports for one of those that train."""
        return "learner" if self.script is None else "worker"

    @property
    def counted(self) -> str:
        """Name in reports for what rounds commit: the tokens of a script are not known."""
        return "tokens" if self.script is None else "steps"


class PhaseEntered(Payload, kind=Kind.PHASE_ENTERED):
    phase: str
    """start, baseline, inject, settle, stop or evaluate; interrupted: what is open is healed, and
    the run ends."""


class PaceSet(Payload, kind=Kind.PACE_SET):
    """All learners keep a step time from now on, see `training.step_time` in plans."""

    step_s: float
    """Duration of a step at full speed."""
    measured_s: Mapping[str, float] = field(default_factory=dict)
    """Median step time of each learner before, at full speed; empty if the plan gives the step
    time."""


class BaselineMeasured(Payload, kind=Kind.BASELINE_MEASURED):
    """Usual speeds without faults."""

    is_steady: bool
    reason: str
    """Reason for which it is steady, or is not."""
    gap_s_median: float | None
    """Between two merged rounds; this and the following are null if there were too few."""
    gap_s_max: float | None
    tokens_per_s: float | None
    """Committed tokens per second over the baseline, or what `counted` names."""
    variation: float | None
    step_s: Mapping[str, float]
    """Mean step time of each learner, by name."""
    step_s_median: Mapping[str, float] = field(default_factory=dict)
    step_variation: Mapping[str, float] = field(default_factory=dict)
    """Coefficient of variation of the median step time over quarters of the samples."""
    counted: str = "tokens"
    """Unit of the committed counts: tokens, or steps of a script."""


class CountsSampled(Payload, kind=Kind.COUNTS_SAMPLED):
    """Four different numbers of learners, once a second."""

    alive: int
    """Number of living processes of learners."""
    members: int
    """Number of members, as the syncer reports them."""
    stepping: int
    contributing: int


class MachineSampled(Payload, kind=Kind.MACHINE_SAMPLED):
    """Load of the harness's machine."""

    window_s: float
    """Time since the last sample."""
    cores: int
    load_1m: float
    own_cores: float
    """CPU time per second of the harness, the nodes and all below them."""
    harness_cores: float
    """CPU time per second of the process of the harness alone."""
    others_cores: float
    """CPU time per second of all other processes."""
    stolen_cores: float
    """CPU time per second that other guests of the host took."""
    idle_cores: float
    waited_s: float | None
    """The harness was ready and had no core."""
    throttled_s: float | None
    """Time for which the quota of its cgroup stalled the harness."""
    cpu_pressure: float | None
    """Share of the time in which some process waited for a core (PSI)."""
    io_pressure: float | None
    memory_pressure: float | None
    nodes: int | None = None
    """Nodes whose processes are on this machine; None if the line does not say."""
    given: Mapping[str, float] = field(default_factory=dict)
    """Ready time of a node's threads, and of those of processes below it, in which they had a core,
    as a share. By name, of the nodes on this machine."""


class RunSettled(Payload, kind=Kind.RUN_SETTLED):
    is_settled: bool
    pending: tuple[str, ...] = ()
    """Conditions that were not met when settling ended."""


class RunLeft(Payload, kind=Kind.RUN_LEFT):
    """Nodes of an attached training that run on: chaoslab neither started nor ends them."""

    nodes: tuple[str, ...]
    gone: tuple[str, ...] = ()
    """Nodes that have ended, and were not started again."""
    refused_lines: Mapping[str, int] = field(default_factory=dict)
    """Number of malformed or forbidden event lines of nodes that still run, by node."""


class RunFinished(Payload, kind=Kind.RUN_FINISHED):
    outcome: RunOutcome
    reason: str


class EvaluationMeasured(Payload, kind=Kind.EVALUATION_MEASURED):
    """The loss of the global parameters on held-out data."""

    committed_tokens: float
    round: int
    loss: float
    is_modelled: bool = False
    """Nothing was trained: the loss is that of a simulation's curve."""


class HarnessStalled(Payload, kind=Kind.HARNESS_STALLED):
    """The harness stalled, or a host was out of its reach; what nodes said meanwhile is stamped
    late, at most with the time of this line.
    """

    silent_s: float
    since_s: float
    """Beginning, on the harness's clock."""
    undone: tuple[str, ...] = ()
    """Undos by its janitor meanwhile."""
    host: str = ""
    """The host that was out of reach; empty: the harness itself stalled."""

    @property
    def what(self) -> str:
        """Description of the stall, to be followed by its duration."""
        return f"{self.host} was out of reach" if self.host else "the harness stalled"


class JanitorDied(Payload, kind=Kind.JANITOR_DIED):
    pid: int
    how: str
    successor: int | None = None
    """Pid of the janitor that was started in its place."""
    reason: str
    """Why there is no successor: from then on nothing is undone if the harness dies."""


class SignalFailed(Payload, kind=Kind.SIGNAL_FAILED):
    """A node could not be told to end; the first time of several for one reason."""

    node: str
    signal: str
    reason: str


class AbortFired(Payload, kind=Kind.ABORT_FIRED):
    rule: str
    observed: str


class VerdictReached(Payload, kind=Kind.VERDICT_REACHED):
    """Not in a journal: a verdict is made from the record, and read back from verdict.json."""

    outcome: str


class ResidueFound(Payload, kind=Kind.RESIDUE_FOUND):
    """Residue after everything was healed and ended."""

    what: str
    where: str
    remedy: str
