"""Groups of learners with different speeds and regions.

    learners: [{count: 4, region: us}, {count: 4, speed: 82%, region: eu}]
                    learner-0 … 3, as fast as can be    learner-4 … 7, older chips

The differences hold from the first step to the last, also in the twin; they are not faults.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Share, show_share


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerGroup:
    """A number of learners with equal speed and region."""

    count: int
    """Number of learners; their names continue those of the group before."""
    speed: Share = 1.0
    """Share of the speed that the machine allows: at 82% each step takes 1/0.82 times as long."""
    region: str | None = None
    """The label `region` of these learners."""

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
    """Each group with the names of its learners, in order."""
    first = 0
    for group in groups:
        yield group, names[first : first + group.count]
        first += group.count


def speeds(groups: Sequence[LearnerGroup], names: Sequence[str]) -> Mapping[str, float]:
    """Speed of every learner that is slower than the machine allows, as a share of one."""
    return {
        name: group.speed
        for group, some in members(groups, names)
        for name in some
        if group.speed < 1
    }
