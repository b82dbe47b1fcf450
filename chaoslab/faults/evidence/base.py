"""Evidence that a fault took effect on one target, read from the record."""

from collections.abc import Mapping
from dataclasses import dataclass

from chaoslab.core.events import Json
from chaoslab.core.payloads import Status
from chaoslab.faults.evidence.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Independent proof that a fault took effect on one target, or why there is none."""

    target: str
    code: Code
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
