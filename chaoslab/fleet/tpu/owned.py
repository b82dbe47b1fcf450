"""A fleet's own slices and requests at Cloud TPU, and the labels that they are known by; and
the meaning of their states.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chaoslab.fleet.provider import Condition
from chaoslab.fleet.tpu.resources import Request, Slice

FLEET: Final = "chaoslab-fleet"
NODE: Final = "chaoslab-node"
UNTIL: Final = "chaoslab-until"
"""Label with the end of the fleet's time, in s since the epoch."""


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
        """Its condition."""
        return condition(self.slice, self.request)

    @property
    def ends_s(self) -> float:
        """End of its time, in s since the epoch."""
        labels = self.slice.labels if self.slice else self.request.labels if self.request else {}
        until = labels.get(UNTIL, "")
        return float(until) if until.isdecimal() else math.inf


_OF_SLICE: Final[Mapping[str, Condition]] = {
    "CREATING": Condition.COMING,
    "STARTING": Condition.COMING,
    "RESTARTING": Condition.COMING,
    "REIMAGING": Condition.COMING,
    "READY": Condition.UP,
    "REPAIRING": Condition.MAINTAINED,
    "STOPPED": Condition.STOPPED,
    "STOPPING": Condition.STOPPED,
    "DELETING": Condition.LEAVING,
    "PREEMPTED": Condition.PREEMPTED,
    "TERMINATED": Condition.FAILED,
    "UNKNOWN": Condition.FAILED,
}
"""HIDING, HIDDEN, UNHIDING and STATE_UNSPECIFIED have no meaning here."""
_OF_REQUEST: Final[Mapping[str, Condition]] = {
    "CREATING": Condition.WAITING,
    "ACCEPTED": Condition.WAITING,
    "WAITING_FOR_RESOURCES": Condition.WAITING,
    "PROVISIONING": Condition.COMING,
    "FAILED": Condition.FAILED,
    "DELETING": Condition.LEAVING,
    "SUSPENDING": Condition.ABSENT,
    "SUSPENDED": Condition.ABSENT,
}
"""Condition of a request without a slice; ACTIVE contradicts that."""
_SUSPENDED: Final = ("SUSPENDING", "SUSPENDED")


def condition(slice_: Slice | None, request: Request | None) -> Condition:
    """Meaning of the API's states: the condition of a slice, from a node and its queued resource.

    Both words are read: a preempted slice is told by its request first, and a slice that is being
    created is known to its request alone. What contradicts itself is UNKNOWN. None of it decides
    that a learner is back: its own reports do.
    """
    if request is not None and request.state in _SUSPENDED and request.is_by_service:
        return Condition.PREEMPTED
    if slice_ is None:
        return (
            Condition.ABSENT
            if request is None
            else _OF_REQUEST.get(request.state, Condition.UNKNOWN)
        )
    if slice_.state == "TERMINATED" and slice_.is_spot:
        return Condition.PREEMPTED
    if slice_.state == "READY" and slice_.health == "UNHEALTHY_MAINTENANCE":
        return Condition.MAINTAINED
    return _OF_SLICE.get(slice_.state, Condition.UNKNOWN)
