"""What a fault plan says, as frozen data that is checked when it is built.

`plan_file` makes these from YAML; nothing here reads a file or knows a fault or a check by name.
Quantities are in base units: seconds, bytes, shares of one. Every error is a PlanError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from chaoslab.errors import PlanError
from chaoslab.units import Count, Share

# ---------------------------------------------------------------- when, whom, how much


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
    syncer: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    pick: Pick = Pick.RANDOM
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ways = [self.share is not None, self.count is not None, bool(self.names), self.everyone,
                self.syncer]  # fmt: skip
        if sum(ways) > 1 or not (any(ways) or self.labels):
            raise PlanError(
                "`target` needs one of learners: 50% | 2 | all | [learner-0], syncer: all, "
                "or a label such as region: eu"
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
        if self.seconds is not None and self.seconds < 0:
            raise PlanError("an outage lasts at least 0s")
        if self.dist is Distribution.TRACE:
            raise PlanError("an outage is fixed, exponential, weibull or lognormal")
        if self.dist is not Distribution.FIXED and self.seconds == 0:
            raise PlanError("a drawn outage needs a mean or median above 0s")
        if self.sigma < 0 or self.shape <= 0:
            raise PlanError("`sigma` is at least 0 and `shape` above 0")


# ---------------------------------------------------------------- one fault, one check


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One entry of `expect`; `settings` is the decoded dataclass of the check."""

    check: str
    settings: object
    where: str = field(default="", compare=False)


# ---------------------------------------------------------------- the run under test and its frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """The adaptive grace window: gamma times the slack, at most `max_steps` step times."""

    gamma: float = 0.8
    max_steps: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """The syncer's outer optimizer: SGD with Nesterov momentum."""

    lr: float = 0.7
    momentum: float = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """The learners' AdamW with warm-up and cosine decay to `final_share` of `lr`."""

    lr: float = 3e-3
    warmup_steps: int = 50
    decay_steps: int = 5000
    final_share: float = 0.1
    weight_decay: float = 0.1
    batch: int = 8
    """Sequences per learner and step."""
    sequence: int = 128
    """Tokens per sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where training ends; whichever comes first. At least one is given.

    A run with faults goes on beyond it until they are over, however fast the machine is.
    """

    rounds: int | None = None
    tokens: Count | None = None
    """Committed tokens."""
    steps: int | None = None
    """Of the furthest learner."""
    time_s: float | None = None
    loss: float | None = None

    def __post_init__(self) -> None:
        values = (self.rounds, self.tokens, self.steps, self.time_s, self.loss)
        if all(value is None for value in values):
            raise PlanError("`stop` needs at least one of rounds, tokens, steps, time, loss")
        if any(value is not None and value <= 0 for value in values):
            raise PlanError("every limit under `stop` is above zero")


class Algorithm(StrEnum):
    """Which training runs. Streaming is decoupled with K = M; diloco also P = 1, no overlap."""

    DECOUPLED = "decoupled"
    STREAMING = "streaming"
    DILOCO = "diloco"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The run under test. Defaults are measured for two shared cores."""

    algorithm: Algorithm = Algorithm.DECOUPLED
    learners: int = 4
    model: str = "nano"
    task: str | None = None
    """package.module:make, in place of `model`."""
    data: str = "stdlib"
    fragments: int = 6
    sync_every: int = 24
    overlap: int = 2
    quorum: int = 1
    grace: Grace = field(default_factory=Grace)
    merge: Literal["rda", "average"] = "rda"
    outer: Outer = field(default_factory=Outer)
    inner: Inner = field(default_factory=Inner)
    compression: Literal["f32", "bf16", "int8", "int4"] = "int8"
    suspect_after_s: float = 2.0
    """No step for this long (or twenty of its own steps): nobody waits for the learner."""
    drop_after_s: float = 6.0
    """No step for this long: it is no longer a member and must register again."""
    evaluate_every: Count | None = None
    """Committed tokens between two snapshots for evaluation; default: `stop.tokens` / 10."""
    stop: Stop = field(default_factory=lambda: Stop(rounds=120))

    def __post_init__(self) -> None:
        if self.learners < 1:
            raise PlanError("`training.learners` is at least 1")
        if not 1 <= self.quorum <= self.learners:
            raise PlanError(
                f"`training.quorum` is {self.quorum}, but there are {self.learners} learners: "
                f"use 1 to {self.learners}"
            )
        if self.sync_every < 1 or self.fragments < 1 or self.overlap < 0:
            raise PlanError("`sync_every` and `fragments` are at least 1, `overlap` at least 0")
        if self.overlap >= self.sync_every and self.sync_every > 1:
            raise PlanError("`overlap` is smaller than `sync_every`")
        if self.suspect_after_s >= self.drop_after_s:
            raise PlanError("`suspect_after` is shorter than `drop_after`")

    @property
    def learner_names(self) -> tuple[str, ...]:
        """learner-0, learner-1, …"""
        return tuple(f"learner-{index}" for index in range(self.learners))


class FleetKind(StrEnum):
    """Where nodes run."""

    LOCAL = "local"


class LinkKind(StrEnum):
    """What lies between each learner and the syncer."""

    NONE = "none"
    """Learners dial the syncer themselves."""
    EMBEDDED = "embedded"
    """The proxy that comes with chaoslab."""
    TOXIPROXY = "toxiproxy"
    """A Toxiproxy server."""


REGION = "region"
"""The label that `fleet.regions` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Which fleet carries the run, and by which links its learners reach the syncer."""

    kind: FleetKind = FleetKind.LOCAL
    links: LinkKind | None = None
    """None: embedded if a fault or a profile needs links, none otherwise."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of nodes by name, for targets such as `region: eu`."""
    regions: Mapping[str, int | tuple[str, ...]] = field(default_factory=dict)
    """The learners of each region: their names, or how many of those that no region names."""
    profiles: Mapping[str, str] = field(default_factory=dict)
    """By region: the named profile that its links have from the start, whatever faults do."""
    toxiproxy: str | None = None
    """host:port of the API of a Toxiproxy server that runs already; None: one of our own."""

    def __post_init__(self) -> None:
        for region, members in self.regions.items():
            if not members:
                raise PlanError(f"the region {region!r} has no learners: write 2, or [learner-0]")
        if self.profiles and self.links is LinkKind.NONE:
            raise PlanError("`profiles` need links: use `links: embedded`, or leave `links` out")
        if self.toxiproxy is not None and self.links is not LinkKind.TOXIPROXY:
            raise PlanError("`toxiproxy` names a server: write `links: toxiproxy` with it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The fault-free stretch that survivors are compared with; faults wait until it is steady."""

    warmup_rounds: int = 12
    window_rounds: int = 24
    max_variation: Share = 0.5
    """Largest accepted coefficient of variation of the rounds' rate over quarters of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The blast radius: a schedule that would break one is refused before the start."""

    min_alive: int = 1
    max_affected: Share = 1.0
    """Largest share of the learners under a fault at once."""
    protected: tuple[str, ...] = ()
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.min_alive < 0 or not 0 <= self.max_affected <= 1:
            raise PlanError("`min_alive` is at least 0 and `max_affected` at most 100%")
        if self.timeout_s <= 0:
            raise PlanError("`timeout` is above 0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRule:
    """Heal and stop when this is seen; the verdict is then UNKNOWN at best."""

    no_round_for_s: float | None = None
    loss_above: float | None = None
    alive_below: int | None = None

    def __post_init__(self) -> None:
        values = (self.no_round_for_s, self.loss_above, self.alive_below)
        if sum(value is not None for value in values) != 1:
            raise PlanError("an abort rule is one of no_round_for, loss_above, alive_below")


class Control(StrEnum):
    """What loss and pace are compared with."""

    NONE = "none"
    TWIN = "twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A whole plan. Equal plans with equal seeds give equal schedules."""

    name: str
    description: str = ""
    seed: int = 0
    training: Training = field(default_factory=Training)
    fleet: FleetSpec = field(default_factory=FleetSpec)
    control: Control = Control.NONE
    baseline: Baseline = field(default_factory=Baseline)
    settle_s: float = 30.0
    """Longest time after the last heal in which everything must converge again."""
    limits: Limits = field(default_factory=Limits)
    faults: tuple[FaultSpec, ...] = ()
    abort: tuple[AbortRule, ...] = ()
    expect: tuple[CheckSpec, ...] = ()

    @property
    def is_evaluated(self) -> bool:
        """Whether held-out losses are measured after the run: to compare, or because asked for."""
        return self.control is Control.TWIN or self.training.evaluate_every is not None

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for fault in self.faults:
            if fault.id in seen:
                raise PlanError(f"two faults are called {fault.id!r}", where=fault.where)
            if fault.at is not None and fault.at.after is not None and fault.at.after not in seen:
                raise PlanError(
                    f"fault {fault.id!r} waits for {fault.at.after!r}, which no earlier fault is "
                    f"called; earlier ones are {', '.join(sorted(seen)) or 'none'}",
                    where=fault.where,
                )
            seen.add(fault.id)
            self._refuse_what_never_comes(fault)
        regions = {labels.get(REGION) for labels in self.labels.values()}
        if unknown := sorted(set(self.fleet.profiles) - regions):
            raise PlanError(
                f"`fleet.profiles` names {unknown[0]!r}, and no learner is in that region: write "
                f"regions: {{{unknown[0]}: 2}}"
            )

    def _refuse_what_never_comes(self, fault: FaultSpec) -> None:
        """A trigger after the end, and arrivals that no end is known of, are mistakes."""
        stop, at, arrivals = self.training.stop, fault.at, fault.arrivals
        if at and at.round is not None and stop.rounds is not None and at.round > stop.rounds:
            raise PlanError(
                f"fault {fault.id!r} waits for round {at.round}, and training may end at round "
                f"{stop.rounds}: raise `training.stop.rounds` or take an earlier round",
                where=fault.where,
            )
        is_open = arrivals and arrivals.dist is not Distribution.TRACE and arrivals.most is None
        if arrivals and is_open and arrivals.until_s is None and stop.time_s is None:
            raise PlanError(
                f"nothing says when the arrivals of fault {fault.id!r} end: write `until: 90s` "
                "below `arrivals`, or let training stop by time",
                where=fault.where,
            )

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every node that has some, those of its region included."""
        found = {name: dict(labels) for name, labels in self.fleet.labels.items()}
        for region, names in self._regions().items():
            for name in names:
                found.setdefault(name, {})[REGION] = region
        return found

    def _regions(self) -> Mapping[str, Sequence[str]]:
        """Names by region; counts take, in order, the learners that no region names."""
        learners, regions = self.training.learner_names, self.fleet.regions
        named = [name for some in regions.values() if isinstance(some, tuple) for name in some]
        named += [name for name, labels in self.fleet.labels.items() if REGION in labels]
        for name in named:
            if named.count(name) > 1:
                raise PlanError(f"{name} is in two regions: name it once")
        free = [name for name in learners if name not in named]
        found: dict[str, Sequence[str]] = {}
        for region, some in regions.items():
            number = some if isinstance(some, int) else 0
            if number > len(free):
                raise PlanError(
                    f"the region {region!r} wants {number} learners, and {len(free)} of "
                    f"{len(learners)} are left: use fewer, or more under `training.learners`"
                )
            found[region] = some if isinstance(some, tuple) else free[:number]
            free = free[number:]
        return found


# ---------------------------------------------------------------- after all chance is spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault after scheduling: number, exact targets, trigger, heal rule. Nothing is left open.

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

    @property
    def id(self) -> str:
        """injection-0, injection-1, …"""
        return f"injection-{self.number}"
