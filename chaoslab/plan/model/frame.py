"""Frame around the faults of a plan: fleet, baseline, limits, abort rules, twin run and checks.

    baseline ─► faults, within Limits; an AbortRule may end it ─► compared with the twin, CheckSpecs

No check and no kind of fleet or links is known by name here: their settings are passed on unread.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, runtime_checkable

from chaoslab.core.binding import binding
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration, Rounds, Share, show_share
from chaoslab.plan.model.rules import broken, refuse
from chaoslab.plan.model.training import Training

PROGRAMS: Final = ("syncer", "learner", "evaluator")
"""Roles whose program a plan may replace."""

_PROGRAM: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*( [^\s{}]+)*")

NO_LINKS: Final = "none"
"""Name of the absence of links: learners connect to the syncer directly."""
REGION = "region"
"""Label that `fleet.regions` sets."""


def _mapping(example: str) -> Any:
    """A field that is empty by default; `example` is what an error says to write."""
    return field(default_factory=dict, metadata={"example": example})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """Fleet of the run, and the links between its learners and the syncer."""

    kind: str = "local"
    """Kind of the fleet: where nodes run."""
    links: str | None = None
    """Kind of links between learners and syncer; None: the links that come with the fleet if a
    fault or a profile needs any, none otherwise."""
    labels: Mapping[str, Mapping[str, str]] = _mapping("{learner-0: {region: eu}}")
    """Labels of nodes by name, for targets such as `region: eu`."""
    regions: Mapping[str, int | tuple[str, ...]] = _mapping("{eu: [learner-0, learner-1], us: 2}")
    """The learners of each region: their names, or how many of those that no region names."""
    profiles: Mapping[str, str] = _mapping("{eu: transatlantic}")
    """Profile of each region's links from the start, in addition to any faults."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Module for each role (syncer, learner, evaluator), started as by `python -m` in place of
    chaoslab's own, with the same flags; any program that follows the node contract works. Words
    after the module are its first arguments."""
    settings: object = None
    """Settings of this kind of fleet, decoded by it; None: its defaults."""
    links_settings: object = None
    """Settings of this kind of links, decoded by it; None: its defaults."""

    def __post_init__(self) -> None:
        for region, members in self.regions.items():
            if not members:
                raise PlanError(f"region {region!r} has no learners: write 2, or [learner-0]")
        if self.profiles and self.links == NO_LINKS:
            raise PlanError("`profiles` need links: use `links: embedded`, or leave `links` out")
        for role, program in self.programs.items():
            if role not in PROGRAMS:
                raise PlanError(
                    f"`programs` has no role {role!r}: use {', '.join(PROGRAMS[:-1])} or "
                    f"{PROGRAMS[-1]}"
                )
            if not _PROGRAM.fullmatch(program):
                raise PlanError(f"the program of a {role} must be package.module, got {program!r}")

    @property
    def modules(self) -> Mapping[str, str]:
        """The modules of `programs`, without arguments."""
        return {role: program.split()[0] for role, program in self.programs.items()}


@runtime_checkable
class LabelsNodes(Protocol):
    """Settings of a fleet that knows labels of nodes, such as the region of each."""

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels by node. PlanError if they cannot be found out."""
        ...


def with_known_labels(fleet: FleetSpec, settings: object, training: Training) -> FleetSpec:
    """The fleet with the labels that these settings of it know of learners of this training.

    What the plan itself says of a node takes precedence. A plan that says which regions there are
    says it of all learners.
    """
    if not isinstance(settings, LabelsNodes):
        return fleet
    has_regions = fleet.regions or any(group.region is not None for _, group in training.grouped())
    hidden = {REGION} if has_regions else set()
    found = dict(fleet.labels)
    for name, known in settings.labels().items():
        labels = {key: value for key, value in known.items() if key not in hidden}
        if name in training.roster and labels:
            found[name] = {**labels, **fleet.labels.get(name, {})}
    return replace(fleet, labels=found)


ROUNDS_AFTER, AFTER_S = 36, 6.0
"""Rounds that follow the last return at least, and for how long: `participation` judges windows of
12 rounds and 2 s, and `cadence` of four for each fragment, of which there are six by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Fault-free part of the run, used for comparison; faults wait until its rate is steady."""

    warmup: Rounds = 12
    """Rounds before the window."""
    window: Rounds = binding(24, least=4, show="{:g} rounds".format)
    """Rounds that are measured."""
    max_variation: Share = binding(0.5, most=1.5, show=show_share)
    """Largest accepted coefficient of variation of the rounds' rate over quarters of the window."""

    def __post_init__(self) -> None:
        refuse(broken(self.window >= 2, "window", f"{self.window} rounds", "at least 2 rounds"))

    @property
    def rounds_after(self) -> int:
        """Rounds that follow the last return at least."""
        return max(self.window, ROUNDS_AFTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the schedule; one that would break them is refused before the start."""

    min_alive: int = 1
    """Learners that are under no fault that takes them away, at any time."""
    max_affected: Share = 1.0
    """Largest share of the learners under a fault at once."""
    protected: tuple[str, ...] = ()
    """Names of learners that no fault may hit."""
    timeout_s: Duration = 600.0
    """Longest duration of the run; then it is healed and stopped."""

    def __post_init__(self) -> None:
        if self.min_alive < 0 or not 0 <= self.max_affected <= 1:
            raise PlanError("`min_alive` must be at least 0 and `max_affected` at most 100%")
        if self.timeout_s <= 0:
            raise PlanError("`timeout` must be above 0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRule:
    """Condition under which the run is healed and stopped; the verdict is then at best UNKNOWN."""

    no_round_for_s: Duration | None = None
    """Time without a merged round."""
    loss_above: float | None = None
    """Mean of the learners' latest training losses; met when it is above this, or not finite."""
    alive_below: int | None = None
    """Number of living learners."""

    def __post_init__(self) -> None:
        values = (self.no_round_for_s, self.loss_above, self.alive_below)
        if sum(value is not None for value in values) != 1:
            raise PlanError("`when` needs exactly one of no_round_for, loss_above, alive_below")
        if self.no_round_for_s is not None and self.no_round_for_s <= 0:
            raise PlanError("must be above 0s", key="no_round_for")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One entry of `expect`; `settings` is the decoded dataclass of the check."""

    check: str
    settings: object
    where: str = field(default="", compare=False)
