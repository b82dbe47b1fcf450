"""Charter of a game-day: who takes part, what is expected of each fault, and which faults wait.

    gameday:
      owner: Training infrastructure
      facilitator: Ann
      responders: [Bo, Cy]
      hypotheses: {half-dies: Training goes on; both are back within 30 s.}
      holds: [half-dies]

Only `chaoslab gameday` reads it; every other command carries the plan out without asking anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoslab.core.errors import PlanError


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
    """By id of a fault: what should happen."""
    holds: tuple[str, ...] | None = None
    """Ids of the faults that wait until an operator lets them go; by default all that can."""
    length_s: float = 9000.0
    """Longest duration, in the place of `limits.timeout`."""

    def __post_init__(self) -> None:
        if self.length_s <= 0:
            raise PlanError("must be above 0s", key="length")
