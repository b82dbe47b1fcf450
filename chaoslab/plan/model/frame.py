"""Baseline, limits, abort rules, control run and checks of a plan.

    baseline ─► faults, within Limits; an AbortRule may end it ─► compared with Control, CheckSpecs

Nothing here knows a check by name; `run` and `triggers` apply these settings.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Rounds, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Fault-free part of the run, used for comparison; faults wait until its rate is steady."""

    warmup: Rounds = 12
    """Rounds before the window."""
    window: Rounds = 24
    """Rounds that are measured."""
    max_variation: Share = 0.5
    """Largest accepted coefficient of variation of the rounds' rate over quarters of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the schedule; one that would break them is refused before the start."""

    min_alive: int = 1
    max_affected: Share = 1.0
    """Largest share of the learners under a fault at once."""
    protected: tuple[str, ...] = ()
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.min_alive < 0 or not 0 <= self.max_affected <= 1:
            raise PlanError("`min_alive` must be at least 0 and `max_affected` at most 100%")
        if self.timeout_s <= 0:
            raise PlanError("`timeout` must be above 0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortRule:
    """Condition under which the run is healed and stopped; the verdict is then at best UNKNOWN."""

    no_round_for_s: float | None = None
    loss_above: float | None = None
    alive_below: int | None = None

    def __post_init__(self) -> None:
        values = (self.no_round_for_s, self.loss_above, self.alive_below)
        if sum(value is not None for value in values) != 1:
            raise PlanError("`when` needs exactly one of no_round_for, loss_above, alive_below")


class Control(StrEnum):
    """Run that loss and pace are compared with."""

    NONE = "none"
    TWIN = "twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One entry of `expect`; `settings` is the decoded dataclass of the check."""

    check: str
    settings: object
    where: str = field(default="", compare=False)
