"""Meaning of the API's states: the condition of a slice, from a node and its queued resource.

Both words are read: a preempted slice is told by its request first, and a slice that is being
created is known to its request alone. What contradicts itself is UNKNOWN. None of it decides that a
learner is back: its own reports do.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.fleet.provider import Condition
from chaoslab.fleet.tpu.resources import Request, Slice

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
"""Of a request without a slice; ACTIVE contradicts that."""
_SUSPENDED: Final = ("SUSPENDING", "SUSPENDED")


def condition(slice_: Slice | None, request: Request | None) -> Condition:
    """What a slice is good for."""
    if request is not None and request.state in _SUSPENDED and request.is_by_service:
        return Condition.PREEMPTED
    if slice_ is None:
        return Condition.ABSENT if request is None else _of_request(request)
    if slice_.state == "TERMINATED" and slice_.is_spot:
        return Condition.PREEMPTED
    if slice_.state == "READY" and slice_.health == "UNHEALTHY_MAINTENANCE":
        return Condition.MAINTAINED
    return _OF_SLICE.get(slice_.state, Condition.UNKNOWN)


def _of_request(request: Request) -> Condition:
    return _OF_REQUEST.get(request.state, Condition.UNKNOWN)
