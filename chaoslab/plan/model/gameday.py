"""Charter of a game-day: who takes part, what is expected, which faults wait, which are sealed.

    gameday:
      owner: Training infrastructure
      facilitator: Ann
      responders: [Bo, Cy]
      hypotheses: {half-dies: Training goes on; both are back within 30 s.}
      holds: [half-dies]
      sealed: {faults: 2, within: 30m}

Only `chaoslab gameday` reads it; every other command carries the plan out without an operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration, show_duration

_SEALED_MOST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedFaults:
    """Faults that no participant sees before they come: drawn from the seed, each on a learner.

    Like all others they keep the limits of the plan. They wait for no operator.
    """

    faults: int = 1
    """Number of sealed faults, 1 to 20."""
    kinds: tuple[str, ...] = ()
    """Full names of the faults that may be drawn; by default those of process.kill, process.pause
    and network.partition that the fleet and its links can do."""
    within_s: Duration = 1800.0
    """They come at random times within this time from the beginning of faults."""
    for_s: Duration = 15.0
    """Duration of each."""

    def __post_init__(self) -> None:
        if not 1 <= self.faults <= _SEALED_MOST:
            raise PlanError(f"must be 1 to {_SEALED_MOST}, got {self.faults}", key="faults")
        for key, value_s in (("within", self.within_s), ("for", self.for_s)):
            if value_s <= 0:
                raise PlanError("must be above 0s", key=key)


def sealed_ids(faults: int) -> tuple[str, ...]:
    """Ids of this many sealed faults, in the order in which they come: sealed-1, sealed-2, …"""
    return tuple(f"sealed-{number}" for number in range(1, faults + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class GameDay:
    """Charter of a game-day."""

    owner: str = ""
    """Who answers for the game-day."""
    facilitator: str = ""
    """Who leads it, and decides what is injected."""
    scribe: str = ""
    """Who takes notes."""
    responders: tuple[str, ...] = ()
    """Who watches the training, predicts, and notices."""
    hypotheses: Mapping[str, str] = field(
        default_factory=dict, metadata={"example": "{half-dies: training goes on}"}
    )
    """Expected result of each fault, by its id."""
    holds: tuple[str, ...] | None = None
    """Ids of the faults that wait until an operator lets them go; by default all that can."""
    length_s: Duration = 9000.0
    """Longest duration, in the place of `limits.timeout`."""
    sealed: SealedFaults | None = None
    """Faults that no participant sees before they come; by default there are none."""

    @property
    def sealed_ids(self) -> tuple[str, ...]:
        """Ids of the sealed faults; orders can name them once they have come."""
        return sealed_ids(self.sealed.faults) if self.sealed else ()

    def __post_init__(self) -> None:
        if self.length_s <= 0:
            raise PlanError("must be above 0s", key="length")
        sealed = self.sealed
        if sealed and sealed.within_s + sealed.for_s >= self.length_s:
            raise PlanError(
                f"`within` and `for` are {show_duration(sealed.within_s + sealed.for_s)} together, "
                f"and `gameday.length` ends the run after {show_duration(self.length_s)}: use "
                "less, or a longer length",
                key="sealed.within",
            )
