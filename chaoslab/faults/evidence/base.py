"""Evidence that a fault took effect on one target, read from the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core.events import Json


class Status(StrEnum):
    """What the evidence says of one fault on one target."""

    PROVED = "proved"
    WEAK = "weak"
    """It took effect, but not with the strength or for the time that was asked."""
    FAILED = "failed"
    """Nothing shows that it took effect."""


class Lack(StrEnum):
    """When what a fault breaks was not there: a link without traffic, no push.

    The record, not the fault, says whether another of the plan's own faults explains it.
    """

    AT_START = "at_start"
    THROUGHOUT = "throughout"
    """From its beginning to its end, or of unknown extent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Independent proof that a fault took effect on one target. `text` is one sentence."""

    target: str
    status: Status
    requested: Mapping[str, Json]
    measured: Mapping[str, Json]
    text: str
    proof: tuple[int, ...] = ()
    """Sequence numbers of the journal events that show it."""
    lack: Lack | None = None
    """Of a fault that found nothing to break: when it was missing."""
