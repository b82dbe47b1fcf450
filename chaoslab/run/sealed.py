"""Sealed injections of a game-day, as a run carries them: in clear in its memory alone.

Inbox.sealed ─► Operators ─┬─► gameday.sealed, before anything starts
                           ├─► waiting injections, whose times count from phase `inject`
                           └─► gameday.unsealed, when all faults are over
"""

from collections.abc import Mapping
from dataclasses import field

from chaoslab.core.events import Json
from chaoslab.core.lazy_dataclass import dataclass
from chaoslab.plan.model import Injection


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedInjections:
    """What is to come and nobody may see, and what of it may be on record."""

    injections: tuple[Injection, ...] = field(repr=False)
    """Their triggers are times from the beginning of phase `inject`."""
    facts: Mapping[str, Json]
    """Data of `gameday.sealed`."""
    key: bytes = field(repr=False)
    """Key of the run."""
