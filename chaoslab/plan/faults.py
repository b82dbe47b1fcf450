"""One fault of a plan: what it is, whom it hits, when it comes and how long it lasts.

    FaultSpec ─┬─ target ── Target: a share, a count, names, labels; Pick where that leaves a choice
               ├─ at ────── Trigger: once, when the run gets there
               ├─ arrivals ─ Arrivals: again and again, by chance
               └─ outage ── Outage: until it is healed

Nothing here knows a fault by name, and nothing is drawn: that is `schedule`'s work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from chaoslab.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a fault is injected: exactly one of the first five, counted from the run's start.

    `round` is the number of merged rounds; `loss` is met when the mean of the learners' latest
    training losses falls to it; `after` names another fault and fires `offset_s` after it healed.
    """

    time_s: float | None = None
    round: int | None = None
    step: int | None = None
    loss: float | None = None
    after: str | None = None
    of: str | None = None
    """With `step`: which learner's; without it, the furthest one's."""
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        named = [self.time_s, self.round, self.step, self.loss, self.after]
        if sum(value is not None for value in named) != 1:
            raise PlanError("`at` needs exactly one of time, round, step, loss, after")
        if self.of is not None and self.step is None:
            raise PlanError("`of` goes with `step`: {step: 200, of: learner-1}")
        if self.offset_s and self.after is None:
            raise PlanError("`offset` goes with `after`: {after: half-dies, offset: 2s}")
        if (
            any(isinstance(value, int | float) and value < 0 for value in named)
            or self.offset_s < 0
        ):
            raise PlanError("a trigger cannot lie in the past: use a value of at least 0")

    def __str__(self) -> str:
        if self.time_s is not None:
            return f"at {self.time_s:g} s"
        if self.round is not None:
            return f"at round {self.round}"
        if self.step is not None:
            return f"at step {self.step} of {self.of or 'the furthest learner'}"
        if self.loss is not None:
            return f"at loss {self.loss:g}"
        return f"{self.offset_s:g} s after {self.after}"


class Pick(StrEnum):
    """How victims are chosen when the target leaves a choice."""

    RANDOM = "random"
    FIRST = "first"
    LAST_VICTIM = "last_victim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom a fault hits: a share, a count, names, everybody, the syncer, or a label's nodes."""

    share: float | None = None
    count: int | None = None
    names: tuple[str, ...] = ()
    everyone: bool = False
    reserve: bool = False
    """A share, a count or all of the reserve, instead of the learners that are there."""
    syncer: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    pick: Pick = Pick.RANDOM
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ways = [self.share is not None, self.count is not None, bool(self.names), self.everyone,
                self.syncer]  # fmt: skip
        if sum(ways) > 1 or not (any(ways) or self.labels):
            raise PlanError(
                "`target` needs one of learners: 50% | 2 | all | [learner-0], reserve: all, "
                "syncer: all, or a label such as region: eu"
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise PlanError("a share of learners lies above 0% and up to 100%")
        if self.count is not None and self.count < 1:
            raise PlanError("a count of learners is at least 1")


class Distribution(StrEnum):
    """Distributions of times between faults and of their durations."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    LOGNORMAL = "lognormal"
    TRACE = "trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Faults that come by chance: drawn for each target, or for the fleet, before the start."""

    per: Literal["target", "fleet"] = "target"
    dist: Distribution = Distribution.EXPONENTIAL
    mtbf_s: float | None = None
    shape: float = 1.0
    trace_s: tuple[float, ...] = ()
    start_s: float = 0.0
    until_s: float | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.dist is Distribution.TRACE:
            if not self.trace_s:
                raise PlanError("`dist: trace` needs `trace: [12s, 40s]`, seconds since the start")
        elif self.mtbf_s is None or self.mtbf_s <= 0:
            raise PlanError("`arrivals` needs `mtbf`, a duration above zero")
        if self.dist is Distribution.LOGNORMAL or self.dist is Distribution.FIXED:
            raise PlanError("`arrivals` knows exponential, weibull and trace")
        if self.shape <= 0:
            raise PlanError("`shape` is above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """How long a fault lasts: a fixed time, or one drawn for each injection."""

    dist: Distribution = Distribution.FIXED
    seconds: float | None = None
    """The fixed time, the exponential or Weibull mean, or the lognormal median."""
    sigma: float = 1.0
    shape: float = 1.0
    at_most_s: float | None = None
    rest: bool = False
    """`for: rest`: never healed before the run ends."""

    def __post_init__(self) -> None:
        if self.rest == (self.seconds is not None):
            raise PlanError("`for` is a duration such as 5s, or the word rest")
        if self.seconds is not None and self.seconds <= 0:
            raise PlanError("an outage of 0s breaks nothing: use a length above 0s, such as 5s")
        if self.dist is Distribution.TRACE:
            raise PlanError("an outage is fixed, exponential, weibull or lognormal")
        if self.at_most_s is not None and self.at_most_s <= 0:
            raise PlanError("`at_most` is above 0s")
        if self.sigma < 0 or self.shape <= 0:
            raise PlanError("`sigma` is at least 0 and `shape` above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One entry of `faults`: what, whom, when, for how long."""

    id: str
    fault: str
    """Full name in the catalogue, e.g. process.kill."""
    settings: object
    """The decoded dataclass of that fault (a `faults.base.Fault`)."""
    target: Target
    at: Trigger | None = None
    arrivals: Arrivals | None = None
    outage: Outage
    where: str = field(default="", compare=False)
    """file:line:column of the entry; two plans are equal wherever they were written."""

    def __post_init__(self) -> None:
        if (self.at is None) == (self.arrivals is None):
            raise PlanError(f"fault {self.id!r} needs either `at` or `arrivals`", where=self.where)
