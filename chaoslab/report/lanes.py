"""The pieces of the picture: a lane for each learner, a bar for each injection, and the rounds.

Plain state that `view` fills from events and `console` draws.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

_RATE_WINDOW_S = 5.0


class LaneState(StrEnum):
    """What a learner does, as far as the record shows."""

    WAITING = "waiting"
    RESERVE = "in reserve"
    """Not there, and may be brought in."""
    STARTING = "starting"
    JOINING = "joining"
    """Brought in while training goes on; nothing of it was merged yet."""
    STEPPING = "stepping"
    SUSPECTED = "suspected"
    """Alive, but no step for a while: wedged, stopped or starved."""
    PAUSED = "paused"
    """Its process was seen stopped from outside."""
    DROPPED = "dropped"
    """Alive, but no longer a member."""
    DEAD = "dead"
    REJOINING = "rejoining"
    """Back, but nothing of this incarnation was merged yet."""
    LEFT = "left"
    """It said goodbye in mid-training."""
    ENDED = "ended"


@dataclass(slots=True, kw_only=True)
class Lane:
    """One learner now."""

    learner: str
    state: LaneState = LaneState.WAITING
    incarnation: int = 0
    step: int | None = None
    step_s: float | None = None
    loss: float | None = None
    contributed_s: float | None = None
    back_s: float | None = None
    """Since when it is on its way back, as a verdict counts it: from the beginning of the heal.
    None while no contribution is owed."""
    gone_s: float = 0.0
    """When it was last seen to be gone."""
    is_new: bool = False
    """It was not there at the start, and nothing of it was merged yet."""

    @property
    def at_work(self) -> LaneState:
        """What a learner that steps is doing: stepping, or still on its way, back or in."""
        on_its_way = LaneState.JOINING if self.is_new else LaneState.REJOINING
        return LaneState.STEPPING if self.back_s is None else on_its_way


@dataclass(slots=True, kw_only=True)
class FaultBar:
    """One injection on the timeline."""

    injection: str
    fault: str
    targets: tuple[str, ...]
    from_s: float
    healing_s: float | None = None
    healed_s: float | None = None
    status: str = "begins"
    spec: str = ""
    """Id of the entry in the plan."""
    takes_away: bool = False
    brings_in: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its victims are still under it."""
        return self.healed_s is None

    @property
    def keeps_away(self) -> bool:
        """Whether the plan wants its targets to be away now."""
        has_ended = self.healing_s is not None
        return self.brings_in if has_ended else self.takes_away


@dataclass(slots=True, kw_only=True)
class Rounds:
    """How training as a whole advances."""

    merged: int = 0
    committed_tokens: float = 0.0
    last_s: float | None = None
    longest_gap_s: float = 0.0
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=512))

    def merge(self, time_s: float, committed_tokens: float) -> None:
        """Count one merged round."""
        if self.last_s is not None:
            self.longest_gap_s = max(self.longest_gap_s, time_s - self.last_s)
        self.merged, self.committed_tokens, self.last_s = self.merged + 1, committed_tokens, time_s
        self.recent.append((time_s, committed_tokens))
        while self.recent[0][0] < time_s - _RATE_WINDOW_S and len(self.recent) > 2:
            self.recent.popleft()

    @property
    def tokens_per_s(self) -> float | None:
        """Committed tokens per second over the last five seconds of rounds."""
        if len(self.recent) < 2:
            return None
        (start_s, before), (end_s, after) = self.recent[0], self.recent[-1]
        return (after - before) / (end_s - start_s) if end_s > start_s else None
