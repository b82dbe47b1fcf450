"""Cost and time of a fleet's slices, against the budget of its inventory.

    TpuProvider.owned ── note ──► lifetimes, labels ──► spent_usd, until_s, why_not

Costs are estimates of `prices`, of the slices that were seen. It refuses nothing itself.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from chaoslab.fleet.provider import Condition
from chaoslab.fleet.tpu.inventory import Cloud
from chaoslab.fleet.tpu.owned import Owned

_HOUR_S: Final = 3600.0


class Spending:
    """What the slices of a fleet have cost, and when their time is over. For several threads."""

    def __init__(self, cloud: Cloud, wall_s: Callable[[], float]) -> None:
        """`wall_s`: seconds since the epoch."""
        self._cloud, self._wall_s = cloud, wall_s
        self._lifetimes: dict[str, tuple[str, float, float]] = {}
        """By id of each slice that was seen: its node, when it was created and last seen."""
        self._ends_s = math.inf
        """When the time of its slices is over, by their labels."""

    def note(self, found: Iterable[Owned]) -> None:
        """These slices were seen now."""
        now_s = self._wall_s()
        for one in found:
            if one.slice is not None and one.slice.created_s:
                self._lifetimes[one.id] = (one.node, one.slice.created_s, now_s)
            if one.condition is not Condition.LEAVING:
                self._ends_s = min(self._ends_s, one.ends_s)

    def until_s(self) -> float:
        """How long a slice that is requested now may exist, in s since the epoch."""
        return min(self._ends_s, self._wall_s() + self._cloud.budget.time_s)

    def spent_usd(self) -> float | None:
        """By the prices of now, of all slices that were seen; None: a price is not known."""
        total = 0.0
        for node, begin_s, end_s in list(self._lifetimes.values()):
            if node not in self._cloud.slices:
                continue
            if (hourly := self._usd_per_hour(node)) is None:
                return None
            total += hourly * max(0.0, end_s - begin_s) / _HOUR_S
        return total

    def why_not(self) -> str:
        """Why no slice may be requested: money or time of the budget is spent. Empty if neither."""
        spent_usd, budget = self.spent_usd(), self._cloud.budget
        if spent_usd is not None and spent_usd >= budget.usd:
            return f"the fleet has cost {spent_usd:.2f} USD, {budget.usd:g} USD are allowed"
        if self._wall_s() >= self._ends_s:
            return f"the slices of {self._cloud.name} may not exist any longer: their time is over"
        return ""

    def _usd_per_hour(self, node: str) -> float | None:
        found = self._cloud.price(node)
        chips = self._cloud.slices[node].accelerator.chips
        return None if found is None else found.usd_per_chip_hour * chips
