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
from chaoslab.core.payloads import Need
from chaoslab.record.history import History


class Outcome(StrEnum):
    """Three-valued: FAIL beats UNKNOWN beats PASS."""

    PASS = "PASS"
    UNKNOWN = "UNKNOWN"
    FAIL = "FAIL"


class Unit(StrEnum):
    """Unit of what a check measures, and of its bound."""

    SECONDS = "s"
    SHARE = "share"
    """0.65 is 65 %."""
    FACTOR = "x"
    """Times as much as what it is compared with."""
    BYTES_PER_S = "bytes/s"
    PER_MINUTE = "1/min"
    ROUNDS = "rounds"
    LINES = "lines"
    INJECTIONS = "injections"
    VIOLATIONS = "violations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one check."""

    check: str
    """Name of the check, or of a rule that always holds."""
    outcome: Outcome
    """PASS, FAIL or UNKNOWN of this check alone."""
    reason: str
    """Sentence that a person understands without the code; names the culprit, if there is one."""
    codes: tuple[str, ...] = ()
    """Codes of what was found or missing, see `checks.codes`; empty for PASS."""
    observed: Json = None
    """Measured value, in the unit of the bound."""
    bound: Json = None
    """Bound of the measured value."""
    margin: float | None = None
    """Share of the attainable distance to the bound that is left: 1 at `best`, 0 at the bound,
    negative when violated (`violations.margin_below`). None if nothing was measured, or if best and
    bound are one."""
    samples: int = 0
    """Number of observations that it rests on."""
    culprits: tuple[str, ...] = ()
    """Names of those that violate it: learners, injections, entries of the plan."""
    evidence: tuple[int, ...] = ()
    """Journal sequence numbers, the first violation first."""
    numbers: Mapping[str, Json] = field(default_factory=dict)
    """Further figures worth showing, each key ending in its unit."""
    unit: str = ""
    """Unit of observed and bound: a `Unit`, or another text; empty for yes and no, and if nothing
    was measured."""
    best: float | None = None
    """Value in an undisturbed run, in the unit of the bound; None if nothing is measured."""

    def __str__(self) -> str:
        """FAIL rejoin: learner-1 did not rejoin in 34.0 s (no_step)."""
        codes = f" ({', '.join(self.codes)})" if self.codes else ""
        return f"{self.outcome} {self.check}: {self.reason}{codes}"


@runtime_checkable
class Check(Protocol):
    """One kind of check. Instances are frozen dataclasses of their settings."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def judge(self, history: History) -> Finding:
        """Judge a finished run from its record."""
        ...


@runtime_checkable
class HasNeeds(Protocol):
    """A check that needs what a run may lack by choice."""

    name: ClassVar[str]
    needs: ClassVar[Mapping[str, Need]]
    """By setting, which is then judged as if it were None; "": without that, all is left out."""
