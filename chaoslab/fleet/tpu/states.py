"""States of slices: what Google's API says of one, what that means, and why a call is refused.

    words of node and queued resource ─► condition ─► SliceReport, of one slice at one time

A slice is what the API gives a learner: one or several hosts that come and go together. None of
this decides that a learner is back: its own reports do.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from chaoslab.core.errors import FleetError

FLEET: Final = "chaoslab-fleet"
NODE: Final = "chaoslab-node"
UNTIL: Final = "chaoslab-until"
"""Labels of a slice: its fleet, its node, and the end of the fleet's time, in s since the epoch."""


class Condition(StrEnum):
    """Usability of a slice, from the API's states."""

    ABSENT = "absent"
    """No slice."""
    WAITING = "waiting"
    """Requested; the zone has no room yet."""
    COMING = "coming"
    """Being created, started or restarted."""
    UP = "up"
    """Its hosts can be reached, as far as the API knows."""
    MAINTAINED = "maintained"
    """Under maintenance or repair by the provider; it comes back by itself."""
    STOPPED = "stopped"
    """Stopped or stopping; it can be started again."""
    LEAVING = "leaving"
    """Being deleted."""
    PREEMPTED = "preempted"
    """Taken away by the provider for others."""
    FAILED = "failed"
    """Broken for good: it has to be replaced."""
    UNKNOWN = "unknown"
    """The API could not be asked, or says something that has no meaning here."""


TAKEN: Final = frozenset({Condition.PREEMPTED, Condition.ABSENT, Condition.LEAVING})
"""The machines of a slice in such a condition are gone for good."""
LOST: Final = TAKEN | {Condition.FAILED}
"""A slice in such a condition is not coming back by itself."""


class Refusal(StrEnum):
    """Reason for which the API refuses a call."""

    QUOTA = "quota"
    """The project may not have more."""
    STOCK_OUT = "stock_out"
    """The zone has no more."""
    ABSENT = "absent"
    EXISTS = "exists"
    DENIED = "denied"
    """Missing permission or credentials."""
    EXPIRED = "expired"
    """The time of the fleet is over: chaoslab itself refuses."""
    STATE = "state"
    """Not possible in the present state of the resource."""
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    """No answer in time; the call may have been carried out."""
    OTHER = "other"


LASTING: Final = frozenset({Refusal.DENIED, Refusal.INVALID, Refusal.EXPIRED})
"""Refusals that the same call would meet again."""


class ProviderError(FleetError):
    """A call that was refused. Programs decide by `refusal`."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReport:
    """A slice, the request for it, or both, at one time. Both have one name."""

    node: str
    """Name of the node that the slice is of, by its label."""
    condition: Condition
    resource: str = ""
    """Name of the slice; empty if the node has none."""
    zone: str = ""
    type: str = ""
    state: str = ""
    """The API's own word for its state, such as READY; empty if there is no slice."""
    health: str = ""
    request: str = ""
    """The API's own word for the state of the request, such as ACTIVE; empty if there is none."""
    detail: str = ""
    """Further text, for people."""
    addresses: tuple[str, ...] = ()
    """Addresses of its hosts, worker 0 first."""
    labels: Mapping[str, str] = field(default_factory=dict)
    difference: str = ""
    """Difference from what the inventory says, as a sentence; empty without one."""
    is_gone_by_us: bool = False
    """Whether it is leaving or gone because chaoslab requested it."""

    @property
    def ends_s(self) -> float:
        """End of its time, by its label, in s since the epoch."""
        until = self.labels.get(UNTIL, "")
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
    "": Condition.ABSENT,
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


def condition(
    state: str = "",
    request: str = "",
    *,
    health: str = "",
    is_spot: bool = False,
    is_by_service: bool = False,
) -> Condition:
    """Condition of a slice, from the states of a node and its queued resource; empty without one.

    Both words are read: a preempted slice is told by its request first, and a slice that is being
    created is known to its request alone. What contradicts itself is UNKNOWN. `is_by_service`: the
    service, not a user, suspended the request.
    """
    if request in ("SUSPENDING", "SUSPENDED") and is_by_service:
        return Condition.PREEMPTED
    if state == "TERMINATED" and is_spot:
        return Condition.PREEMPTED
    if state == "READY" and health == "UNHEALTHY_MAINTENANCE":
        return Condition.MAINTAINED
    known = _OF_SLICE.get(state) if state else _OF_REQUEST.get(request)
    return known or Condition.UNKNOWN
