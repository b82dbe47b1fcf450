"""Contact with a host agent, and its end: gaps, calls without an answer, losses.

    heard ─┬─ silent for `answer_s` ─► OutOfReach: a call ends, the agent may come back
           └─ silent for `lost_s` ───► AgentLost: its nodes are gone, and no call is answered again

A harness that stalled for the time of a lease has lost its agents by its own doing.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Self

from chaoslab.core.errors import FleetError

GAP_S: Final = 1.0
"""A shorter gap moves no stamp by more than what a harness may be late anyway."""
_LOOK_S: Final = 0.5


class OutOfReach(FleetError):
    """An agent was not heard for a while; whether a call of that time was carried out is open."""


class AgentLost(FleetError):
    """The agent of a host cannot be reached any more, or is another one."""

    def __init__(self, message: str, *, by_lease: bool = False) -> None:
        """`by_lease`: it ended its nodes because this process had not renewed its lease."""
        super().__init__(message)
        self.by_lease = by_lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which an agent was not heard."""

    for_s: float
    undone: tuple[str, ...] = ()
    """Overdue undos by the agent meanwhile, as sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Time for which an agent and its harness trust each other without a message."""

    lease_s: float = 30.0
    """An agent ends everything when its lease was not renewed for this long."""
    lost_s: float = 30.0
    """An agent counts as lost when it was out of reach for this long."""
    answer_s: float = 4.0
    """A call is given up when its agent was silent for this long, before the harness, which waits
    for it, counts as stalled.
    """


@dataclass(slots=True, kw_only=True)
class Silence:
    """Silence of an agent over a connection that did not break.

    Only time in which it was asked counts: a process that stalls itself asks nothing.
    """

    _asked: int = 0
    _longest_s: float = 0.0

    def ask(self) -> None:
        """Note a request that the agent answers."""
        self._asked += 1

    def end(self, for_s: float, every_s: float) -> None:
        """Note a message after this silence; the agent was asked once in `every_s`."""
        self._longest_s = max(self._longest_s, min(for_s, self._asked * every_s))
        self._asked = 0

    def take(self) -> float:
        """The longest time since this was called last."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s


@dataclass(slots=True, kw_only=True)
class OwnStall:
    """Time for which this process itself stalled, and renewed no lease."""

    lease_s: float
    stalled_s: float = 0.0
    """The longest time."""

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease of every agent was over meanwhile."""
        return self.stalled_s >= self.lease_s

    def loss(self, host: str, lost_s: float, error: Exception) -> AgentLost:
        """Error for an agent of a host that is silent."""
        if self.has_lapsed:
            stall = f"the harness stalled for {self.stalled_s:.1f} s"
            words = f"{stall}, and its lease of {self.lease_s:g} s was over"
        else:
            words = f"its host agent is out of reach for {lost_s:g} s"
        why = str(error) or "nothing answers"
        return AgentLost(f"{host}: {words}: {why}", by_lease=self.has_lapsed)

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[Self]:
        """Measure it meanwhile."""
        measuring = asyncio.create_task(self._measure())
        try:
            yield self
        finally:
            measuring.cancel()

    async def _measure(self) -> None:
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            now_s = time.monotonic()
            self.stalled_s = max(self.stalled_s, now_s - before_s)
            before_s = now_s
