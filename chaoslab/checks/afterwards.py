"""What became of each learner after its return: to how many rounds it contributed, and how it left.

heal ─ back ─┤ | | | | | | . . . .        contributed to 6 of 10 rounds since
└ died          then died at 29.6 s
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from chaoslab.checks.absence import absences
from chaoslab.checks.answers import Return
from chaoslab.checks.outages import outages
from chaoslab.checks.timeline import (
    of_learner_between,
    parts_of,
    rounds_with_work,
    training_end_s,
)
from chaoslab.core.payloads import Leaving, MemberLeft, NodeExited
from chaoslab.record.journal import History

_SILENT_ROUNDS = 12


class Left(StrEnum):
    """How a learner that was back ended before training did."""

    DIED = "died"
    DROPPED = "dropped"
    SILENT = "silent"
    """It contributed to none of the last 12 rounds or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What a learner did from its last return to the end of training, or to its next fault."""

    rounds: int
    """Rounds that were merged since."""
    contributed: int
    """Those of them that it contributed to."""
    left: Left | None = None
    """How it ended before training did; None if it worked to the end."""
    left_s: float | None = None
    """When it did: its death, its end as a member, or its last contribution."""


def afterwards(history: History, found: Mapping[str, Return]) -> Mapping[str, Since]:
    """By learner that is back."""
    return {
        who: _since(history, who, back_s)
        for who, back in found.items()
        if back.rejoined
        for back_s in [max(_backs_s(history, who), default=None)]
        if back_s is not None
    }


def _backs_s(history: History, learner: str) -> Iterator[float]:
    """When its work was accepted again after a fault."""
    for absence in absences(history):
        if absence.learner == learner and absence.accepted is not None:
            yield absence.accepted.time_s
    for outage in outages(history):
        heard = outage.returns.get(learner)
        if heard is not None:
            yield heard.time_s


def _since(history: History, learner: str, back_s: float) -> Since:
    again_s = (one.gone_s for one in absences(history) if one.learner == learner)
    end_s = min([training_end_s(history), *(gone_s for gone_s in again_s if gone_s > back_s)])
    rounds = [
        event.time_s
        for event in rounds_with_work(history)
        if back_s <= event.time_s <= end_s and not event.payload.is_restated
    ]
    given = [
        part.time_s
        for part in parts_of(history, learner)
        if back_s <= part.time_s <= end_s and not part.merged.payload.is_restated
    ]
    last_s = given[-1] if given else back_s
    left, left_s = _left(history, learner, last_s, end_s)
    if left is None and sum(time_s > last_s for time_s in rounds) >= _SILENT_ROUNDS:
        left, left_s = Left.SILENT, last_s
    return Since(rounds=len(rounds), contributed=len(given), left=left, left_s=left_s)


def _left(
    history: History, learner: str, last_s: float, end_s: float
) -> tuple[Left | None, float | None]:
    """How it was lost after its last contribution, if it was."""
    for died in history.between(last_s, end_s, NodeExited):
        if died.payload.node == learner and died.time_s < end_s:
            return Left.DIED, round(died.time_s, 3)
    for dropped in of_learner_between(history, MemberLeft, learner, last_s, end_s):
        if dropped.payload.reason is not Leaving.SAID_GOODBYE and dropped.time_s < end_s:
            return Left.DROPPED, round(dropped.time_s, 3)
    return None, None
