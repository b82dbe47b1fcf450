"""Resources of the Cloud TPU API as plain data: slices, requests in the queue, operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaoslab.fleet.provider import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A node of the API: a slice."""

    id: str
    zone: str
    state: str
    """CREATING, READY, PREEMPTED, ..."""
    health: str = ""
    detail: str = ""
    addresses: tuple[str, ...] = ()
    """Worker 0 first."""
    labels: Mapping[str, str] = field(default_factory=dict)
    request: str = ""
    """The queued resource it came from."""
    is_spot: bool = False
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A queued resource of the API."""

    id: str
    zone: str
    state: str
    """WAITING_FOR_RESOURCES, ACTIVE, SUSPENDED, ..."""
    is_by_service: bool = False
    """The service, not a user, suspended it."""
    detail: str = ""
    slices: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A long-running operation."""

    name: str
    is_done: bool
    refusal: Refusal | None = None
    detail: str = ""
