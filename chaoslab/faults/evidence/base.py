"""Evidence that a fault took effect on one target, read from the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from chaoslab.core.events import Json
from chaoslab.core.payloads import IdlePeriod, Status


class EvidenceCode(StrEnum):
    """Base of reason codes of evidence; each has a status, and `idle` if nothing was to break.

    Those of chaoslab are in `codes`. A package with faults of its own may bring more: a subclass
    whose members are `NAME = "family.name", Status.WEAK`. A record holds the status beside the
    code, so that it is read without that package.
    """

    status: Status
    idle: IdlePeriod | None

    def __new__(cls, name: str, status: Status, idle: IdlePeriod | None = None) -> Self:
        """One code with the status that it stands for."""
        code = str.__new__(cls, name)
        code._value_, code.status, code.idle = name, status, idle
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Independent proof that a fault took effect on one target, or why there is none."""

    target: str
    code: EvidenceCode
    requested: Mapping[str, Json]
    measured: Mapping[str, Json]
    text: str
    """One sentence that begins with the target."""
    proof: tuple[int, ...] = ()
    """Sequence numbers of the journal events that show it."""

    @property
    def status(self) -> Status:
        """Whether the fault is proved."""
        return self.code.status
