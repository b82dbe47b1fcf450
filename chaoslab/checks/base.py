"""A check: settings + judge(history) → Finding. Pure: it sees the record and nothing else.

A check is a frozen dataclass whose fields are its YAML parameters. It answers PASS, FAIL or
UNKNOWN; UNKNOWN whenever there were too few samples to tell. To add one: one class, one line in
the catalogue, one run of the contract kit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol, runtime_checkable

from chaoslab.core.events import Json
from chaoslab.record.journal import History


class Outcome(StrEnum):
    """Three-valued: FAIL beats UNKNOWN beats PASS."""

    PASS = "PASS"
    UNKNOWN = "UNKNOWN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found."""

    check: str
    """Name of the check, or of a rule that always holds."""
    outcome: Outcome
    reason: str
    """One sentence a person understands without the code; names the culprit when there is one."""
    codes: tuple[str, ...] = ()
    """Of what was found or missing, see `checks.codes`; empty for PASS and in older verdicts."""
    observed: Json = None
    bound: Json = None
    margin: float | None = None
    """Signed distance to the bound as a share of it; negative when violated."""
    samples: int = 0
    culprits: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    """Journal sequence numbers, the first violation first."""
    numbers: Mapping[str, Json] = field(default_factory=dict)
    """Further figures worth showing, each key ending in its unit."""


@runtime_checkable
class Check(Protocol):
    """One kind of check. Instances are frozen dataclasses of their settings."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def judge(self, history: History) -> Finding:
        """Judge a finished run from its record."""
        ...
