"""Payloads of events of nodes, from the fleet, from the nodes themselves, and from what a
training that is not chaoslab's own says in its output.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypedDict

from chaoslab.core.events import Json, Kind, Payload
from chaoslab.core.protocol import Phase


class _OfProcess(Payload):
    """An event of one process of a node."""

    node: str
    incarnation: int
    pid: int


class NodeStarted(_OfProcess, kind=Kind.NODE_STARTED):
    role: str
    """learner, syncer, evaluator or launcher."""
    start_ticks: int | None = None
    """Start of the process, in clock ticks since the boot; None in a container."""
    boot_id: str | None = None
    namespaces: str | None = None
    """Namespaces in which the pid and the ticks count."""
    labels: Mapping[str, Json] = field(default_factory=dict)
    container: str | None = None
    image: str | None = None
    image_id: str | None = None
    started_by: str = ""
    """cluster, launcher or supervisor, if that one started it again; empty: chaoslab did, or it is
    the first start that is known."""
    container_began_s: float | None = None
    """Start of its container in a pod, in s since the epoch, by the clock of the machine."""


class NodeExited(_OfProcess, kind=Kind.NODE_EXITED):
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended it."""
    refused_lines: int = 0
    """Lines that claimed to be events and were none that it may report."""
    sent: tuple[str, ...] | None = None
    """Names of the signals that the harness had sent to end it, SIGHUP as a notice included; None:
    the record does not say."""
    last_words: str = ""
    """The end of its standard error, if it failed by itself."""
    out_of_memory: bool = False
    """Whether the kernel killed its container out of memory, by the engine's report."""
    host_lost: bool = False
    """Whether it ended with its host, which was lost; `last_words` says how."""
    lease_over: bool = False
    """Whether its host ended it, because the harness stalled and did not renew the lease."""
    is_seen: bool = True
    """False: exit code and signal are not known; `signal` is then the last one that the harness
    had sent it, if any."""
    container_ended_s: float | None = None
    """End of its container in a pod, by the same clock as its start; of one that is gone the time
    of its last line."""


class EngineReported(Payload, kind=Kind.ENGINE_REPORTED):
    """A report of the container engine or the cluster, independent of the fleet's actions."""

    node: str
    incarnation: int
    action: str
    """start, die, oom, kill, pause, unpause, update, connect, disconnect, health_status, …; of a
    cluster: start, die, oom, evict, delete, gone, no_image, job, job_gone, job_set, job_restart; of
    a machine of the cluster on which the node's pod was: cordon, uncordon."""
    exit_code: int | None = None
    signal: str | None = None
    health: str | None = None
    """healthy or unhealthy, with `health_status`."""
    reason: str = ""
    """The cluster's word for why: Error, OOMKilled, EvictionByEvictionAPI, ErrImagePull, …"""
    uid: str = ""
    """Unique id of the Job, with `job` and `job_gone`; of the JobSet, with `job_set`."""
    machine: str = ""
    """Machine of the cluster that its pod is on, or that is told of."""
    restarts: int | None = None
    """Number of restarts of its Job alone by the JobSet, with `job_restart`."""


class ProviderReported(Payload, kind=Kind.PROVIDER_REPORTED):
    """Report of the provider about a node's hosts, whenever it changes."""

    node: str
    condition: str
    """absent, waiting, coming, up, maintained, stopped, leaving, preempted, failed or unknown."""
    resource: str = ""
    """Name of the slice at the provider."""
    state: str = ""
    """The provider's own word, such as READY."""
    health: str = ""
    request: str = ""
    """The provider's own word for the state of its request, such as WAITING_FOR_RESOURCES."""
    detail: str = ""
    is_by_us: bool = False
    """Whether it is leaving or gone because chaoslab requested it."""


class RepairMoved(Payload, kind=Kind.REPAIR_MOVED):
    """A repair of the slice of a node reached another stage."""

    node: str
    cause: str
    """fault, preemption or failure."""
    stage: str
    """begun, cleared, requested, waiting, coming, up, trial, back or given_up."""
    attempt: int
    """Slices that this repair has requested."""
    lost: str = ""
    """Name of the slice that was lost."""
    resource: str = ""
    """Name of the slice that was requested last."""
    preemptions: int = 0
    """Preemptions of this node in the whole run, as the budget counts them."""
    failures: int = 0
    """Other failures of this node in the whole run, as the budget counts them."""
    detail: str = ""


class NodeProbed(_OfProcess, kind=Kind.NODE_PROBED):
    state: str
    """R, S, D, T, Z (see proc(5)), gone, or unknown: its host is out of reach."""
    rss_bytes: int
    cpu_s: float


class StressedFields(TypedDict):
    """Fields of every event of a stressor."""

    node: str
    incarnation: int
    injection: str
    stressor: str


class StressCounts(TypedDict, total=False):
    """Fields of `NodeCounted`: those that a stressor measures."""

    cores: float
    throttled_s: float
    cpu_s: float
    rss_bytes: float
    available_bytes: float
    oom_kills: int


class _Stressed(Payload):
    node: str
    incarnation: int
    injection: str
    stressor: str
    """slowness, neighbours, occupied_memory or memory_limit."""


class NodeStressed(_Stressed, kind=Kind.NODE_STRESSED):
    """A stressor acts on a node from now on."""

    mechanism: str
    """Mechanism of the stressor, as text."""
    settings: Mapping[str, Json]


class NodeCounted(_Stressed, kind=Kind.NODE_COUNTED):
    """Measurements of a stressor; each kind has some of these."""

    cores: float | None = None
    """CPU time per second that is left to the node."""
    throttled_s: float | None = None
    """Throttled time of all threads of the node."""
    cpu_s: float | None = None
    rss_bytes: float | None = None
    """Memory of the processes that compete with the node."""
    available_bytes: float | None = None
    """Memory available on the machine."""
    oom_kills: int | None = None


class NodeRelieved(_Stressed, kind=Kind.NODE_RELIEVED):
    """A stressor has ended."""

    because: str
    """Empty, or why it ended without a request."""


class DiskBlocked(Payload, kind=Kind.DISK_BLOCKED):
    """The disk of a host refuses what its host agent writes, as a full one does."""

    host: str
    file: str
    """The first file that is incomplete since then; what nodes print there may be, too."""
    reason: str


class DiskFreed(Payload, kind=Kind.DISK_FREED):
    """The disk accepts writes again."""

    host: str
    blocked_s: float


class StorageDamaged(Payload, kind=Kind.STORAGE_DAMAGED):
    """All of it read back from the disk."""

    node: str
    file: str
    how: str
    """corrupt, truncate or lose."""
    bytes_before: int | None
    digest_before: str | None
    bytes_after: int | None
    """Size afterwards; None: the file is gone."""
    digest_after: str | None
    untouched: tuple[str, ...]
    """All other files of the folder, to which nothing was done."""


class _Volume(Payload):
    node: str
    total_bytes: int
    free_bytes: int
    """Free bytes of the node's volume, by the kernel."""


class StorageFilled(_Volume, kind=Kind.STORAGE_FILLED):
    """The volume is full."""


class StorageFreed(_Volume, kind=Kind.STORAGE_FREED):
    """The volume has room again."""


class LostFile(Payload):
    """A file that was not as before when the power was back."""

    file: str
    bytes_before: int | None = None
    """Size before; None: there was no such file."""
    bytes_after: int | None = None


class StoragePowerLost(Payload, kind=Kind.STORAGE_POWER_LOST):
    """All of it read back from the disk."""

    node: str
    refused: str | None = None
    """Error of a write after the cut; None if it succeeded."""
    files: int
    """Number of files."""
    lost: tuple[LostFile, ...]
    """Files that differ from before; null: no such file."""


class NodeFields(TypedDict):
    """Fields of what a node says of itself."""

    node: str
    learner: str
    incarnation: int


class _ByItself(Payload):
    """A node says it of itself."""

    node: str = ""
    """The syncer; a learner says `learner`."""
    learner: str = ""
    incarnation: int


class PhaseReached(_ByItself, kind=Kind.PHASE_REACHED):
    """A node that was asked to announce a point of the protocol is there."""

    phase: Phase
    is_waiting: bool = False
    """Whether it waits there for the harness."""
    round: int | None = None
    """This and the following as far as they are known."""
    fragment: int | None = None
    version: int | None = None


class ClockRead(_ByItself, kind=Kind.CLOCK_READ):
    """Both clocks as the node's code reads them: before they are touched, at once, twice a second,
    and when they are let go.
    """

    wall_s: float
    """Wall-clock time in seconds since the epoch."""
    monotonic_s: float


class LineKind(StrEnum):
    """Kind of a trainer's line."""

    PROGRESS = "progress"
    SAVED = "saved"
    RESUMED = "resumed"


class TrainerSaid(Payload, kind=Kind.TRAINER_SAID):
    """A line of a worker's output that its script's patterns match, as it was read."""

    node: str
    incarnation: int
    what: LineKind
    """progress, saved: a checkpoint is complete, resumed: it goes on from one."""
    step: int | None = None
    """Step by the trainer's count; None where the line has none."""
    loss: float | None = None
    learning_rate: float | None = None
    rank: int | None = None
    """Rank in the line; None if it names none."""
    age_s: float = 0.0
    """Of a checkpoint that a file tells: how long before its event the file was written, s."""
    line: str = ""


class Mixing(StrEnum):
    """How it shows that lines of progress are not those of one worker each."""

    BACK = "back"
    """A step came after a later one in the same process, before any fault, or again and again."""
    REPEATED = "repeated"
    """Each step came as often as there are workers that the line may be of."""


class TrainerMixed(Payload, kind=Kind.TRAINER_MIXED):
    """Lines of progress that nothing tells apart, said once. From then on each of them is one step,
    and none begins a membership anew.
    """

    node: str
    """The worker whose line it was taken for."""
    how: Mixing
    """back: a step came after a later one in the same process, before any fault or again and again;
    repeated: each step came as often as there are workers."""
    step: int
    before: int
    """Step of the line before it."""
    workers: tuple[str, ...]
    """Workers that the line counted for."""
    line: str = ""
