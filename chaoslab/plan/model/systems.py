"""Systems of others that can train in the place of chaoslab's own learners and syncer.

    training: {system: torchft, algorithm: diloco, torchft: {heartbeat_timeout: 1s}}

Each does one algorithm. A setting that a plan leaves out is the system's own default. Adapters get
the settings under the names of these fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration

Setting: TypeAlias = float | int | bool | str
_FROM_ZERO: Final = frozenset({"quorum_retries", "max_restarts", "max_retries"})
_WHOLE: Final = frozenset(
    {"last_call_timeout_s", "join_timeout_s", "keep_alive_interval_s", "read_timeout_s"}
)
"""Settings of torchrun that are whole seconds."""
SystemName: TypeAlias = Literal["chaoslab", "torchft", "hivemind", "torchrun", "nvrx"]


class _Positive:
    """Settings that must be above zero where given."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]  # those below are dataclasses
            value, least = getattr(self, one.name), 0 if one.name in _FROM_ZERO else 1
            if isinstance(value, float) and value <= 0:
                raise PlanError("must be above 0s", key=one.name.removesuffix("_s"))
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise PlanError(f"must be at least {least}, got {value}", key=one.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchft(_Positive):
    """Settings of torchft: of its lighthouse, which says which learners take part, and of its
    managers.
    """

    heartbeat_timeout_s: Duration | None = None
    """A learner that is silent for this long is no longer waited for."""
    join_timeout_s: Duration | None = None
    """Time for which a quorum waits for learners that are alive and not there yet."""
    quorum_timeout_s: Duration | None = None
    """Time for which a learner waits for a quorum."""
    timeout_s: Duration | None = None
    """Time limit of an average, or of the transfer of a state."""
    connect_timeout_s: Duration | None = None
    """Time limit of a connection."""
    heartbeat_interval_s: Duration | None = None
    """Time between two heartbeats of a learner."""
    quorum_retries: int | None = None
    """Number of times that a learner requests a missed quorum again."""
    max_retries: int | None = None
    """After how many failed averages in a row a learner ends; without it, never."""
    min_replica_size: int | None = None
    """Least number of learners that may go on; without this key 1, as in its examples."""
    init_sync: bool | None = None
    """Whether all learners begin with the parameters of one."""
    quorum_tick_s: Duration | None = None
    """Time between two looks of the lighthouse at its members."""
    group_timeout_s: Duration | None = None
    """Time limit of a collective of its process group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hivemind(_Positive):
    """Settings of hivemind, and of OpenDiLoCo, which is built on it."""

    matchmaking_time_s: Duration | None = None
    """Time for which a learner looks for others to average with."""
    averaging_timeout_s: Duration | None = None
    """Time limit of an average, matchmaking included."""
    allreduce_timeout_s: Duration | None = None
    """Time limit of the transfer of an average."""
    next_chunk_timeout_s: Duration | None = None
    """Time limit of the next part of an average."""
    request_timeout_s: Duration | None = None
    """Time limit of a peer's answer to a request to average together."""
    max_refresh_period_s: Duration | None = None
    """Longest time between two looks at the progress of the others."""
    metadata_expiration_s: Duration | None = None
    """Time after which the progress of a silent peer expires."""
    timeout_waiting_for_peers_s: Duration | None = None
    """Time for which a learner that is ready waits for slower ones."""
    target_group_size: int | None = None
    """Learners that average with each other at most."""
    min_group_size: int | None = None
    """Least number of learners that average with each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchrun(_Positive):
    """Settings of torchrun: of its rendezvous, and of the processes that it restarts."""

    min_nodes: int | None = None
    """Least number of learners that train."""
    max_restarts: int | None = None
    """How many times a worker is started again that failed; without this key never, so that a lost
    learner ends the training."""
    share_rendezvous_store: bool | None = None
    """Whether workers meet at the store of the rendezvous. With torch 2.15 a learner that was
    started again then never gets in."""
    start_method: Literal["spawn", "forkserver"] | None = None
    """Start method of workers; a fork server imports torch once."""
    read_timeout_s: Duration | None = None
    """Time limit of an answer of the store. Whole seconds."""
    monitor_interval_s: Duration | None = None
    """Time between two looks at the worker and at those that wait to join."""
    last_call_timeout_s: Duration | None = None
    """Time for which a rendezvous that has enough learners waits for more. Whole seconds."""
    join_timeout_s: Duration | None = None
    """Time limit of a rendezvous. Whole seconds."""
    keep_alive_interval_s: Duration | None = None
    """Time between two heartbeats of a learner. Whole seconds."""
    keep_alive_max_attempt: int | None = None
    """Missed heartbeats after which a learner is lost."""
    gloo_timeout_s: Duration | None = None
    """Time limit of a collective."""

    def __post_init__(self) -> None:
        _Positive.__post_init__(self)
        for name in _WHOLE:
            value = getattr(self, name)
            if value is not None and value != int(value):
                raise PlanError(
                    f"torchrun takes whole seconds, got {value:g}s", key=name.removesuffix("_s")
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvrx(_Positive):
    """Settings of NVRx: of its wrapper around the training function, and of the collectives in it.

    Its own defaults: 60 s, 90 s, 30 s, 120 s and 120 s for the timeouts, 5 s of grace, 1 s for the
    rest.
    """

    store: Literal["learner", "service"] | None = None
    """Program that serves the store in which faults and barriers are noted; without this key the
    first learner, as NVRx does, whose end then ends the training. service: the central service."""
    soft_timeout_s: Duration | None = None
    """A learner that makes no progress for this long has its training function restarted, and all
    others with it."""
    hard_timeout_s: Duration | None = None
    """A learner that makes no progress for this long is ended."""
    heartbeat_timeout_s: Duration | None = None
    """A learner whose monitor process is silent for this long is lost."""
    barrier_timeout_s: Duration | None = None
    """Time for which a restart waits for all learners."""
    completion_timeout_s: Duration | None = None
    """Time for which a learner that has finished waits for the others."""
    last_call_wait_s: Duration | None = None
    """Time for which a restart waits for more learners to fail."""
    heartbeat_interval_s: Duration | None = None
    """Time between two heartbeats of a monitor process."""
    monitor_thread_interval_s: Duration | None = None
    """Time between two looks of a learner for faults of others."""
    monitor_process_interval_s: Duration | None = None
    """Time between two looks of a monitor process at its learner."""
    progress_watchdog_interval_s: Duration | None = None
    """Interval of the checks whether the training thread advances."""
    termination_grace_time_s: Duration | None = None
    """Time between SIGTERM and SIGKILL for a learner that is ended."""
    gloo_timeout_s: Duration | None = None
    """How long a collective may take; without this key 10s, as in NVRx's example for CPUs. Nothing
    else ends a collective of gloo that waits."""

    def __post_init__(self) -> None:
        _Positive.__post_init__(self)
        for lower, higher in _NVRX_ORDER:
            values = [self._value(name) for name in (lower, higher)]
            if values[0] >= values[1]:
                rule = "must be below `{}` ({:g}s)".format(higher.removesuffix("_s"), values[1])
                raise PlanError(f"{rule}, is {values[0]:g}s", key=lower.removesuffix("_s"))

    def _value(self, name: str) -> float:
        """Setting of the plan, or NVRx's default, in s."""
        given: float | None = getattr(self, name)
        return _NVRX_TIMES_S[name] if given is None else given


_NVRX_TIMES_S: Final[Mapping[str, float]] = {
    "soft_timeout_s": 60.0,
    "hard_timeout_s": 90.0,
    "heartbeat_timeout_s": 30.0,
    "barrier_timeout_s": 120.0,
    "heartbeat_interval_s": 1.0,
    "monitor_thread_interval_s": 1.0,
    "monitor_process_interval_s": 1.0,
    "progress_watchdog_interval_s": 1.0,
}
"""NVRx's defaults of the times that it compares with each other."""
_NVRX_ORDER: Final = (
    ("soft_timeout_s", "hard_timeout_s"),
    ("hard_timeout_s", "barrier_timeout_s"),
    ("heartbeat_timeout_s", "barrier_timeout_s"),
    ("heartbeat_interval_s", "heartbeat_timeout_s"),
    ("monitor_process_interval_s", "heartbeat_timeout_s"),
    ("monitor_process_interval_s", "soft_timeout_s"),
    ("monitor_thread_interval_s", "soft_timeout_s"),
    ("progress_watchdog_interval_s", "soft_timeout_s"),
)
"""Pairs of NVRx in which the first must be shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Facts about a system, known before a run."""

    algorithm: str
    """The only algorithm that it does here."""
    packages: tuple[str, ...]
    """Packages of its environment, by their names in pip."""
    about: str
    """Description, in a line."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that its documentation requires in the environment of its processes."""


_TORCH: Final = ("torch==2.15.0", "numpy")
SYSTEMS: Final[Mapping[str, System]] = {
    "torchft": System(
        algorithm="diloco",
        packages=(*_TORCH, "torchft==0.2.0"),
        about="PyTorch's fault tolerance: DiLoCo with a quorum for each round",
    ),
    "hivemind": System(
        algorithm="diloco",
        packages=(*_TORCH, "hivemind==1.1.12"),
        about="decentralised averaging, used as OpenDiLoCo does",
    ),
    "torchrun": System(
        algorithm="elastic_data_parallel",
        packages=_TORCH,
        about="PyTorch's elastic launcher: all workers restart from a checkpoint",
    ),
    "nvrx": System(
        algorithm="elastic_data_parallel",
        packages=(*_TORCH, "nvidia-resiliency-ext==0.4.1"),
        about="NVIDIA's in-process restart: the survivors restart the training function",
        environment={"TORCH_CPP_LOG_LEVEL": "error"},
    ),
}
"""Beside chaoslab itself."""


def given(settings: Any) -> dict[str, Setting]:  # one of the dataclasses above
    """The settings of a system that a plan sets, by the names of their fields."""
    values: Mapping[str, Setting | None] = asdict(settings)
    return {name: value for name, value in values.items() if value is not None}


def wrong_system(
    system: str, settings: Mapping[str, object], *, algorithm: str, learners: int
) -> Iterator[PlanError]:
    """Settings of another system, and what a system cannot do that is asked of it.

    `settings`: of every system by its name; `learners`: how many there are.
    """
    for name in SYSTEMS:
        if name != system and given(settings[name]):
            yield PlanError(f"sets {name}, and `system` is {system}", key=name)
    if system not in SYSTEMS:
        return
    asked = given(settings[system])
    least = asked.get("min_nodes", asked.get("min_replica_size"))
    if isinstance(least, int) and least > learners:
        yield PlanError(f"asks for at least {least} learners, and there are {learners}", key=system)
    if algorithm != SYSTEMS[system].algorithm:
        yield PlanError(
            f"{system} trains with `algorithm: {SYSTEMS[system].algorithm}`: write that, or leave "
            "out `system`",
            key="system",
        )
