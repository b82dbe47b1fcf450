"""Parts of a training in a plan: algorithm, groups of learners, grace window, and where it ends."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Count, Duration, Share, show_share
from chaoslab.plan.model.rules import broken, refuse

HOSTS_MOST: Final = 64
"""A larger number of hosts of a learner is taken for a typing error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """Adaptive grace window: gamma times the slack, at most `max_steps` step times."""

    gamma: float = 0.8
    """Share of the slack of a round that the window may use."""
    max_steps: float = 1.0
    """Longest window, in step times."""

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        yield from broken(0 <= self.gamma < 1, "gamma", self.gamma, "at least 0 and below 1")
        yield from broken(self.max_steps >= 0, "max_steps", self.max_steps, "at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End of training, by whichever limit is reached first; at least one, but for a script.

    A run with faults continues beyond it until all of them are over.
    """

    rounds: int | None = None
    """Number of merged rounds."""
    tokens: Count | None = None
    """Number of committed tokens: trained on and merged."""
    steps: int | None = None
    """Number of steps of the furthest learner."""
    time_s: Duration | None = None
    """Time since training began."""
    loss: float | None = None
    """Mean of the learners' latest training losses."""

    def __post_init__(self) -> None:
        if any(value <= 0 for name, value in self.limits.items() if name != "loss"):
            raise PlanError("every limit under `stop` but `loss` must be above 0")

    @property
    def limits(self) -> Mapping[str, float]:
        """Given limits, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Algorithm(StrEnum):
    """Algorithm. Streaming is decoupled with K = M, and learners wait for rounds; diloco also has
    P = 1 and no overlap. With the other two, learners average their gradients in every step, and
    a round only stores the result.
    """

    DECOUPLED = "decoupled"
    STREAMING = "streaming"
    DILOCO = "diloco"
    DATA_PARALLEL = "data_parallel"
    ELASTIC_DATA_PARALLEL = "elastic_data_parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerGroup:
    """A number of learners with equal speed, region and hosts."""

    count: int
    """Number of learners; their names continue those of the group before."""
    speed: Share = 1.0
    """Share of the full speed: at 82% each step takes 1/0.82 times as long."""
    region: str | None = None
    """The label `region` of these learners."""
    hosts: int | None = None
    """Number of hosts of each of these learners; default: `hosts` of the training."""

    def __post_init__(self) -> None:
        refuse(self._mistakes())

    def _mistakes(self) -> Iterator[PlanError]:
        yield from broken(self.count >= 1, "count", self.count, "at least 1")
        if self.hosts is not None:
            yield from broken(
                1 <= self.hosts <= HOSTS_MOST, "hosts", self.hosts, f"1 to {HOSTS_MOST}"
            )
        if self.region is not None and not self.region.strip():
            yield PlanError("must not be empty: write a name, or leave it out", key="region")
        if not 0.01 <= self.speed <= 1:
            yield PlanError(
                f"must be 1% to 100%, got {show_share(self.speed)}: a chip can only be slowed",
                key="speed",
            )
