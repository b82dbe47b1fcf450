"""Provider of hosts: what a fleet of remote hosts asks of a cloud.

    inventory entry ─► Provider.hosts(node) ─► ProvidedHost, ... ─► a fleet dials them

A slice is what a provider gives a learner: one or several hosts that come and go together. Its
state by the provider's word is a `SliceReport`; a learner counts as back when it says so itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from chaoslab.core.errors import FleetError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvidedHost:
    """A host of a slice, as the provider's API tells it."""

    address: str
    """Address for ssh."""
    host_keys: tuple[str, ...] = ()
    """Public host keys such as "ssh-ed25519 AAAA..."; empty: known_hosts decides."""


class Condition(StrEnum):
    """Usability of a slice, from the provider's states."""

    ABSENT = "absent"
    """No slice."""
    WAITING = "waiting"
    """Requested; the provider has no room yet."""
    COMING = "coming"
    """Being created, started or restarted."""
    UP = "up"
    """Its hosts can be reached, as far as the provider knows."""
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
    """The provider could not be asked, or says something that has no meaning here."""


class Refusal(StrEnum):
    """Reason for which a provider refuses a call."""

    QUOTA = "quota"
    """The project may not have more."""
    STOCK_OUT = "stock_out"
    """The zone has no more."""
    ABSENT = "absent"
    EXISTS = "exists"
    DENIED = "denied"
    """Missing permission or credentials."""
    STATE = "state"
    """Not possible in the present state of the resource."""
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    """No answer in time; the call may have been carried out."""
    OTHER = "other"


LASTING: Final = frozenset({Refusal.DENIED, Refusal.INVALID})
"""Refusals that the same call would meet again."""


class ProviderError(FleetError):
    """A call that the provider refused. Programs decide by `refusal`."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReport:
    """Report of the provider about the slice of one node at one time."""

    node: str
    """Name of the node that the slice is of."""
    condition: Condition
    resource: str = ""
    """Name of the slice at the provider; empty if it has none."""
    state: str = ""
    """The provider's own word for its state."""
    health: str = ""
    request: str = ""
    """The provider's own word for the state of the request in its queue."""
    detail: str = ""
    """Further text of the provider, for people."""
    is_as_written: bool = True
    """Whether it is the slice that the inventory says, as far as one is there."""
    is_gone_by_us: bool = False
    """Whether it is leaving or gone because chaoslab requested it."""


class Provider(Protocol):
    """Gives, watches and takes back the slices of a fleet. Calls return when they are accepted."""

    @property
    def nodes(self) -> Sequence[str]:
        """Nodes that have a slice by the inventory."""
        ...

    def hosts(self, node: str) -> tuple[ProvidedHost, ...]:
        """Hosts of its slice, worker 0 first. FleetError while there is none that is up."""
        ...

    def look(self) -> Sequence[SliceReport]:
        """A report for each node, as the provider says now. ProviderError if it cannot be asked."""
        ...

    def request(self, node: str) -> str:
        """Ask for a new slice, by the provider's queue; returns its name. ProviderError."""
        ...

    def delete(self, node: str) -> None:
        """Delete its slice and the request it came from; nothing if there is none."""
        ...

    def take(self, node: str) -> None:
        """Delete its slice and leave the request as it is: as a preemption does."""
        ...

    def stop(self, node: str) -> None:
        """Stop its slice, which stays."""
        ...

    def start(self, node: str) -> None:
        """Start its slice, which was stopped."""
        ...

    def maintain(self, node: str) -> None:
        """Let the provider simulate a maintenance event on it."""
        ...

    def why_not(self) -> str:
        """Why no slice may be requested any more, by their time; empty if one may. No call."""
        ...
