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
_FROM_ZERO: Final = frozenset({"quorum_retries", "max_restarts"})
_WHOLE: Final = frozenset({"last_call_timeout_s", "keep_alive_interval_s"})
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
    timeout_s: Duration | None = None
    """Time limit of an average, or of the transfer of a state."""
    quorum_retries: int | None = None
    """Number of times that a learner requests a missed quorum again."""
    group_timeout_s: Duration | None = None
    """Time limit of a collective of its process group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hivemind(_Positive):
    """Settings of hivemind, and of OpenDiLoCo, which is built on it."""

    matchmaking_time_s: Duration | None = None
    """Time for which a learner looks for others to average with."""
    averaging_timeout_s: Duration | None = None
    """Time limit of an average, matchmaking included."""
    next_chunk_timeout_s: Duration | None = None
    """Time limit of the next part of an average."""
    request_timeout_s: Duration | None = None
    """Time limit of a peer's answer to a request to average together."""
    target_group_size: int | None = None
    """Learners that average with each other at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Torchrun(_Positive):
    """Settings of torchrun: of its rendezvous, and of the processes that it restarts."""

    max_restarts: int | None = None
    """How many times a worker is started again that failed; without this key never, so that a lost
    learner ends the training."""
    share_rendezvous_store: bool | None = None
    """Whether workers meet at the store of the rendezvous. With torch 2.15 a learner that was
    started again then never gets in."""
    start_method: Literal["spawn", "forkserver"] | None = None
    """Start method of workers; a fork server imports torch once."""
    last_call_timeout_s: Duration | None = None
    """Time for which a rendezvous that has enough learners waits for more. Whole seconds."""
    keep_alive_interval_s: Duration | None = None
    """Time between two heartbeats of a learner. Whole seconds."""
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

    Its own defaults of the timeouts: 60 s, 90 s and 30 s.
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
    last_call_wait_s: Duration | None = None
    """Time for which a restart waits for more learners to fail."""
    gloo_timeout_s: Duration | None = None
    """How long a collective may take; without this key 10s, as in NVRx's example for CPUs. Nothing
    else ends a collective of gloo that waits."""

    def __post_init__(self) -> None:
        _Positive.__post_init__(self)
        soft_s, hard_s = self.soft_timeout_s or 60.0, self.hard_timeout_s or 90.0
        for key, value, least_s, most_s in (
            ("soft_timeout", soft_s, _NVRX_LOOKS_S, hard_s),
            ("hard_timeout", hard_s, soft_s, _NVRX_BARRIER_S),
            ("heartbeat_timeout", self.heartbeat_timeout_s or 30.0, _NVRX_LOOKS_S, _NVRX_BARRIER_S),
        ):
            if not least_s < value < most_s:
                rule = f"must be above {least_s:g}s and below {most_s:g}s, is {value:g}s"
                raise PlanError(rule, key=key)


_NVRX_LOOKS_S: Final = 1.0
"""NVRx's time between two looks at a learner, and between two heartbeats."""
_NVRX_BARRIER_S: Final = 120.0
"""NVRx's time limit of a restart."""


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
    system: str, settings: Mapping[str, object], *, algorithm: str
) -> Iterator[PlanError]:
    """Settings of another system, and an algorithm that a system cannot do.

    `settings`: of every system by its name.
    """
    for name in SYSTEMS:
        if name != system and given(settings[name]):
            yield PlanError(f"sets {name}, and `system` is {system}", key=name)
    if system in SYSTEMS and algorithm != SYSTEMS[system].algorithm:
        yield PlanError(
            f"{system} trains with `algorithm: {SYSTEMS[system].algorithm}`: write that, or leave "
            "out `system`",
            key="system",
        )
