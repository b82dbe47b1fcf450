"""Payloads of injections, from the trigger to the evidence."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypedDict

from chaoslab.core.events import Json, Kind, Payload


class Status(StrEnum):
    """Result of the evidence of one fault on one target."""

    PROVED = "proved"
    WEAK = "weak"
    """It took effect, but weaker or shorter than requested."""
    FAILED = "failed"
    """Nothing shows that it took effect."""


class IdlePeriod(StrEnum):
    """Periods in which there was nothing to break, such as a link without traffic.

    The record, not the fault, says whether another of the plan's own faults explains it.
    """

    AT_START = "at_start"
    THROUGHOUT = "throughout"
    """From its beginning to its end, or of unknown extent."""


class Obstacle(StrEnum):
    """Reason why an injection is not carried out."""

    UNDER_FAULT = "under_fault"
    """An open fault has a target, and cannot share it."""
    NOT_ALIVE = "not_alive"
    THERE_ALREADY = "there_already"
    PROTECTED = "protected"
    LIMITS = "limits"
    PLACEMENT = "placement"
    """It would hit another node than intended, by the placement of nodes at that moment."""
    NO_TRIGGER = "no_trigger"
    OPERATOR = "operator"
    """An operator of a game-day left it out."""


class InjectionFields(TypedDict):
    """Fields of `OfInjection`."""

    injection: str
    spec: str
    fault: str
    targets: tuple[str, ...]


class OfInjection(Payload):
    """An event of one injection."""

    injection: str
    spec: str
    """Id of the entry in the plan."""
    fault: str
    targets: tuple[str, ...]
    """Names of the target nodes."""


class FaultInjecting(OfInjection, kind=Kind.FAULT_INJECTING):
    settings: Mapping[str, Json]
    trigger: str
    asked_s: float | None = None
    """Time at which the trigger is met; if that is known in advance, a moment after the event."""
    for_s: float | None = None
    takes_away: bool
    """The targets leave the training and must rejoin."""
    brings_in: bool = False
    """The targets are new learners, which join."""
    may_silence: bool = True
    """The targets may contribute to fewer rounds meanwhile, or to none."""
    reached: int | None = None
    """Of a trigger by phase: seq of the announcement that met it."""


class FaultInjected(OfInjection, kind=Kind.FAULT_INJECTED):
    """All of its first step was carried out."""


class FaultStepped(OfInjection, kind=Kind.FAULT_STEPPED):
    """A later step of the same fault was carried out."""

    step: int
    """Its number; the first one after the injection is 0."""


class FaultFailed(OfInjection, kind=Kind.FAULT_FAILED):
    """The injection could not be carried out."""

    reason: str


class FaultSkipped(OfInjection, kind=Kind.FAULT_SKIPPED):
    """The injection was not begun."""

    spec: str = ""
    reason: str
    obstacle: Obstacle | None = None


class FaultHealing(OfInjection, kind=Kind.FAULT_HEALING):
    because: str = ""
    """Reason for the heal, if it is another than its time."""


class FaultHealed(OfInjection, kind=Kind.FAULT_HEALED):
    """It was undone, and no target was left without a process, or stopped."""

    because: str = ""


class FaultHealFailed(OfInjection, kind=Kind.FAULT_HEAL_FAILED):
    """It is tried again until the run ends."""

    reason: str
    """Remainder of the fault, or the refusal."""


class EvidenceMeasured(Payload, kind=Kind.EVIDENCE_MEASURED):
    """Evidence that an injection took effect on one target."""

    injection: str
    fault: str
    target: str
    status: Status
    code: str | None = None
    """Why it has that status: a `faults.evidence.codes.Code`, see docs/faults.md, or one that the
    fault's package brings."""
    requested: Mapping[str, Json]
    measured: Mapping[str, Json]
    text: str
    proof: tuple[int, ...]
    """`seq` of the events that prove it."""
    idle: IdlePeriod | None = None
    """Time in which the target of the fault was idle."""
