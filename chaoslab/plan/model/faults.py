"""Fault entries of a plan: the fault, its targets, its trigger and its duration.

    FaultSpec ─┬─ target ── Target: a share, a count, names, labels; Pick if several match
               ├─ at ────── Trigger: once, at a point of the run
               ├─ arrivals ─ Arrivals: repeatedly, at random times
               └─ outage ── Outage: the time until it is healed

Nothing here knows a fault by name, and nothing is drawn: see `schedule`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from chaoslab.core.errors import PlanError
from chaoslab.core.protocol import SYNCER_PHASES, Phase
from chaoslab.core.units import Duration

SYNCER = "syncer"
"""Name, and role, of the node that merges the learners' work."""
LAUNCHER = "launcher"
"""The node that starts the workers of a script, where chaoslab does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a fault is injected: exactly one of the first six, counted from the run's start.

    `round` is the number of merged rounds; `loss` is met when the mean of the learners' latest
    training losses falls to it; `after` names another fault and fires `offset_s` seconds after it
    was healed; `phase` is met when a node announces this protocol point.
    """

    time_s: Duration | None = None
    """Time since the run began."""
    round: int | None = None
    """Number of merged rounds."""
    step: int | None = None
    """Steps of a learner."""
    loss: float | None = None
    """Mean of the learners' latest training losses; met when it falls to this."""
    after: str | None = None
    """Id of an earlier fault; met `offset` after it was healed."""
    phase: Phase | None = None
    """Protocol point; met when a node announces it."""
    of: str | None = None
    """Node, with `step` or `phase`; by default the furthest learner, or the first to
    announce."""
    offset_s: Duration = 0.0
    """Time to wait, with `after`."""
    after_round: int = 0
    """Least number of merged rounds, with `phase`."""
    wait_s: Duration = 0.0
    """Longest time for which the node waits there until the injection, with `phase`."""

    def __post_init__(self) -> None:
        named = [self.time_s, self.round, self.step, self.loss, self.after, self.phase]
        if sum(value is not None for value in named) != 1:
            raise PlanError("`at` needs exactly one of time, round, step, loss, after, phase")
        if self.of is not None and self.step is None and self.phase is None:
            raise PlanError("`of` needs `step` or `phase`: {step: 200, of: learner-1}")
        if self.phase is None and (self.after_round or self.wait_s):
            key, like = ("wait", "5s") if self.wait_s else ("after_round", "48")
            raise PlanError(f"`{key}` needs `phase`: {{phase: written, {key}: {like}}}")
        if self.wait_s < 0 or self.after_round < 0:
            raise PlanError("`wait` and `after_round` must be at least 0")
        if self.phase in SYNCER_PHASES and self.of not in (None, SYNCER):
            raise PlanError(f"`{self.phase}` is a phase of the syncer: leave `of` out")
        if self.of == SYNCER and self.phase not in SYNCER_PHASES:
            raise PlanError(
                f"`of: syncer` needs a phase of the syncer: {', '.join(sorted(SYNCER_PHASES))}; "
                "otherwise write `of: learner-1`, or leave `of` out"
            )
        if self.offset_s and self.after is None:
            raise PlanError("`offset` needs `after`: {after: half-dies, offset: 2s}")
        counts = [value for value in (self.time_s, self.round, self.step) if value is not None]
        if min(*counts, self.offset_s, 0) < 0:
            raise PlanError("the value of a trigger other than `loss` must be at least 0")

    def __str__(self) -> str:
        if self.time_s is not None:
            return f"at {self.time_s:g} s"
        if self.round is not None:
            return f"at round {self.round}"
        if self.step is not None:
            return f"at step {self.step} of {self.of or 'the furthest node'}"
        if self.loss is not None:
            return f"at loss {self.loss:g}"
        if self.phase is not None:
            late = f" after round {self.after_round}" if self.after_round else ""
            whose = SYNCER if self.phase in SYNCER_PHASES else self.of or "the first learner"
            waits = f", where it waits for at most {self.wait_s:g} s" if self.wait_s else ""
            return f"when {whose} is at {self.phase}{late}{waits}"
        return f"{self.offset_s:g} s after {self.after}"


class Pick(StrEnum):
    """Choice of targets if more nodes match than are hit."""

    RANDOM = "random"
    FIRST = "first"
    LAST_VICTIM = "last_victim"
    AT_PHASE = "at_phase"
    """The node that announces the phase of the trigger."""
    SLOWEST = "slowest"
    """The slowest by `training.learners`; the seed draws among equals."""
    FASTEST = "fastest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Targets of a fault: a share, a count, names, all learners, the syncer, or a label's nodes."""

    share: float | None = None
    count: int | None = None
    names: tuple[str, ...] = ()
    everyone: bool = False
    reserve: bool = False
    """Select from the reserve, instead of the learners that are there from the start."""
    syncer: bool = False
    launcher: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    pick: Pick = Pick.RANDOM
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ways = [self.share is not None, self.count is not None, bool(self.names), self.everyone,
                self.syncer, self.launcher]  # fmt: skip
        if sum(ways) > 1 or not (any(ways) or self.labels):
            raise PlanError(
                "`target` needs one of learners: 50% | 2 | all | [learner-0], reserve: all, "
                "syncer: all, launcher: all, or a label such as region: eu"
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise PlanError("a share of learners must be above 0% and at most 100%")
        if self.count is not None and self.count < 1:
            raise PlanError(f"a count of learners must be at least 1, got {self.count}")
        if self.pick is Pick.AT_PHASE and (self.count != 1 or self.reserve):
            raise PlanError("`pick: at_phase` needs `learners: 1`: {learners: 1, pick: at_phase}")


class Distribution(StrEnum):
    """Distributions of times between faults, and of durations."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    LOGNORMAL = "lognormal"
    TRACE = "trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Faults at random times, drawn before the start for each target or for the fleet."""

    per: Literal["target", "fleet"] = "target"
    """Times drawn for each target by itself, or for the fleet as a whole."""
    dist: Distribution = Distribution.EXPONENTIAL
    """Distribution of the times between faults; `fixed` and `lognormal` are refused."""
    mtbf_s: Duration | None = None
    """Mean time between failures."""
    shape: float = 1.0
    """Shape of a Weibull distribution: below 1, failures come in bursts."""
    trace_s: tuple[Duration, ...] = ()
    """Times since the run began, with `trace`."""
    start_s: Duration = 0.0
    """No fault before this time."""
    until_s: Duration | None = None
    """No fault after this time."""
    most: int | None = None
    """Largest number of faults; the earliest are kept."""

    def __post_init__(self) -> None:
        if self.dist is Distribution.TRACE:
            if not self.trace_s:
                raise PlanError("`dist: trace` needs `trace: [12s, 40s]`, seconds since the start")
        elif self.mtbf_s is None or self.mtbf_s <= 0:
            raise PlanError("`arrivals` needs `mtbf`, a duration above 0s")
        if self.dist is Distribution.LOGNORMAL or self.dist is Distribution.FIXED:
            raise PlanError("`dist` of `arrivals` must be exponential, weibull or trace")
        if self.shape <= 0:
            raise PlanError("`shape` must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Duration of a fault: fixed, or drawn for each injection."""

    dist: Distribution = Distribution.FIXED
    seconds: float | None = None
    """The fixed duration, the mean (exponential, Weibull) or the median (lognormal)."""
    sigma: float = 1.0
    shape: float = 1.0
    at_most_s: Duration | None = None
    rest: bool = False
    """`for: rest`: never healed before the run ends."""

    def __post_init__(self) -> None:
        if self.rest == (self.seconds is not None):
            raise PlanError("`for` must be a duration such as 5s, or rest")
        if self.seconds is not None and self.seconds <= 0:
            raise PlanError("the duration of a fault must be above 0s, for example 5s")
        if self.dist is Distribution.TRACE:
            raise PlanError("`dist` of `outage` must be exponential, weibull or lognormal")
        if self.at_most_s is not None and self.at_most_s <= 0:
            raise PlanError("`at_most` must be above 0s")
        if self.sigma < 0 or self.shape <= 0:
            raise PlanError("`sigma` must be at least 0 and `shape` above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One entry of `faults`: fault, targets, trigger and duration."""

    id: str
    fault: str
    """Full name in the catalogue, such as process.kill."""
    settings: object
    """Decoded settings of the fault (a `faults.base.Fault`)."""
    target: Target
    at: Trigger | None = None
    arrivals: Arrivals | None = None
    outage: Outage
    where: str = field(default="", compare=False)
    """file:line:column of the entry; ignored in comparisons."""

    @property
    def can_be_held(self) -> bool:
        """Whether it can wait for an operator: its trigger is no moment that passes."""
        return self.at is None or self.at.phase is None

    def __post_init__(self) -> None:
        if (self.at is None) == (self.arrivals is None):
            raise PlanError(
                f"fault {self.id!r} needs either `at` or `arrivals`: write `at: {{round: 60}}`"
            )
        phase = self.at.phase if self.at else None
        if self.target.pick is Pick.AT_PHASE and (phase is None or phase in SYNCER_PHASES):
            learners = ", ".join(sorted(set(Phase) - SYNCER_PHASES))
            raise PlanError(
                f"fault {self.id!r}: `pick: at_phase` needs a phase of the learners: "
                f"`at: {{phase: …}}` with one of {learners}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One scheduled fault: number, exact targets, trigger, heal rule. No random choice is left.

    `number` counts from zero in the order of the schedule; `spec` is the id of its FaultSpec.
    """

    number: int
    spec: str
    fault: str
    settings: object
    targets: tuple[str, ...]
    trigger: Trigger
    for_s: float | None
    """Seconds until it is healed; None: never before the end (`for: rest`)."""
    watched: tuple[str, ...] = ()
    """Nodes that are asked to announce the phase of the trigger. Without targets, the first node to
    announce it becomes the target."""

    @property
    def id(self) -> str:
        """Name of the injection in events: injection-0, injection-1, …"""
        return f"injection-{self.number}"
