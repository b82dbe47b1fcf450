"""Payloads of game-days: faults that wait for an operator, and what people do and say."""

from collections.abc import Mapping
from enum import StrEnum

from chaoslab.core.events import Kind, Payload


class Action(StrEnum):
    """Order of an operator."""

    GO = "go"
    """Inject it now, whether its trigger has come or not."""
    SKIP = "skip"
    """Leave it out."""
    MILDER = "milder"
    """Half as many targets; with a single one, half as long."""
    STRONGER = "stronger"
    """Twice as many targets, as far as the limits allow; else twice as long."""
    REPEAT = "repeat"
    """Inject once more what was injected, on the same targets."""
    HEAL = "heal"
    """Heal what is open before its time."""
    END = "end"
    """Nothing more is asked for: training settles and ends."""
    ABORT = "abort"
    """Heal everything and end the run."""


class GamedayOpened(Payload, kind=Kind.GAMEDAY_OPENED):
    """The charter, as it stood when the run began."""

    owner: str = ""
    facilitator: str = ""
    scribe: str = ""
    responders: tuple[str, ...] = ()
    hypotheses: Mapping[str, str]
    """Hypotheses by id of the entry in the plan."""
    holds: tuple[str, ...]
    """Ids of the entries that wait for an operator."""
    sealed: int = 0
    """Number of faults that no participant sees before they come."""


class FaultHeld(Payload, kind=Kind.FAULT_HELD):
    """The trigger of an entry of the plan has come, and it waits for an operator."""

    spec: str
    """Id of the entry."""
    fault: str
    trigger: str
    injections: int
    """Number of its injections that wait."""
    targets: tuple[str, ...]
    """Targets of the first of them; empty if its trigger names them."""


class ByOperator(Payload):
    """Something that a person did or said."""

    by: str
    """Who."""
    spec: str = ""
    """Id of the entry of the plan that it is about; empty: all, or none in particular."""


class OperatorActed(ByOperator, kind=Kind.OPERATOR_ACTED):
    """An operator asked for something, which is done in the events that follow."""

    action: Action
    reason: str = ""


class OperatorRefused(ByOperator, kind=Kind.OPERATOR_REFUSED):
    """An order of an operator is not carried out."""

    asked: str
    """The order in words: `go half-dies`."""
    reason: str


class OperatorPredicted(ByOperator, kind=Kind.OPERATOR_PREDICTED):
    """Prediction of a participant before a fault is injected; None: no answer."""

    continues: bool | None = None
    """Whether training continues."""
    gap_s: float | None = None
    """Longest time without a merged round."""
    hit: tuple[str, ...] | None = None
    """Names of the nodes that are hit."""
    back_s: float | None = None
    """Time from the heal until all victims contribute again."""


class OperatorNoted(ByOperator, kind=Kind.OPERATOR_NOTED):
    """A note. One that names a fault shows that it was noticed."""

    text: str
    came_s: float | None = None
    """Time of arrival, if the run was ending and the note was written later; None: just now."""
