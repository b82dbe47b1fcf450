"""Learners that are not all alike: groups of them, each with its own speed and region.

    learners: [{count: 4, region: us}, {count: 4, speed: 82%, region: eu}]
                    learner-0 … 3, as fast as can be    learner-4 … 7, older chips

A standing condition, from the first step to the last and in the twin as well: no fault is needed,
and none is counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Share, show_share


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerGroup:
    """So many learners of one kind."""

    count: int
    """How many; their names go on from those of the group before."""
    speed: Share = 1.0
    """Of the speed that the machine allows: at 82% each step takes 1/0.82 times as long."""
    region: str | None = None
    """The label `region` of its learners."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PlanError(f"must be at least 1, got {self.count}", key="count")
        if self.region is not None and not self.region.strip():
            raise PlanError("must not be empty: write a name, or leave it out", key="region")
        if not 0.01 <= self.speed <= 1:
            raise PlanError(
                f"must be 1% to 100%, got {show_share(self.speed)}: a chip can only be slowed",
                key="speed",
            )


def members(
    groups: Sequence[LearnerGroup], names: Sequence[str]
) -> Iterator[tuple[LearnerGroup, Sequence[str]]]:
    """Each group and its learners, in order."""
    first = 0
    for group in groups:
        yield group, names[first : first + group.count]
        first += group.count


def speeds(groups: Sequence[LearnerGroup], names: Sequence[str]) -> Mapping[str, float]:
    """The speed of every learner that is slower than the machine allows."""
    return {
        name: group.speed
        for group, some in members(groups, names)
        for name in some
        if group.speed < 1
    }
