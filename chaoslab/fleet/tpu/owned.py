"""A fleet's own slices and requests at Cloud TPU, and the labels that they are known by."""

import math
from dataclasses import dataclass
from typing import Final

from chaoslab.fleet.provider import Condition
from chaoslab.fleet.tpu.conditions import condition
from chaoslab.fleet.tpu.resources import Request, Slice

FLEET: Final = "chaoslab-fleet"
NODE: Final = "chaoslab-node"
UNTIL: Final = "chaoslab-until"
"""When the fleet's time is over, in s since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A slice of the fleet, its request, or both."""

    node: str
    id: str
    zone: str
    slice: Slice | None
    request: Request | None

    @property
    def condition(self) -> Condition:
        """What it is good for."""
        return condition(self.slice, self.request)

    @property
    def ends_s(self) -> float:
        """When its time is over, in s since the epoch."""
        labels = self.slice.labels if self.slice else self.request.labels if self.request else {}
        until = labels.get(UNTIL, "")
        return float(until) if until.isdecimal() else math.inf
