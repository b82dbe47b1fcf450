"""Repair time of a lost slice, and the parts that it consists of.

    begun ─── in the provider's queue ─── being created ─── up ─── its node starts ─── back
      └────────────── what no plan can shorten ────────────┘         (its first step there)

Waiting for the provider is told apart from what the system under test does with the slice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

from chaoslab.checks.base import Finding, Unit
from chaoslab.checks.codes import Code
from chaoslab.checks.violations import Doubt, Measured, Violation, conclude
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Event, Json
from chaoslab.core.payloads import RepairMoved
from chaoslab.core.units import Duration, elapsed
from chaoslab.record.history import History

_QUEUED: Final = ("begun", "cleared", "requested", "waiting")
_CREATED: Final = ("coming",)
_STARTED: Final = ("up", "trial")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repair:
    """One repair, as its sequence of stages."""

    moves: tuple[Event[RepairMoved], ...]
    end_s: float
    """End of the record, for a repair that was not over."""

    @property
    def node(self) -> str:
        return self.moves[0].payload.node

    @property
    def last(self) -> Event[RepairMoved]:
        return self.moves[-1]

    @property
    def is_over(self) -> bool:
        return self.last.payload.stage in ("back", "given_up")

    @property
    def took_s(self) -> float:
        """Duration to its end, or to the end of the record."""
        until_s = self.last.time_s if self.is_over else self.end_s
        return until_s - self.moves[0].time_s

    def spent_s(self, stages: Sequence[str]) -> float:
        """Time spent in these stages."""
        ends = [*(event.time_s for event in self.moves[1:]), self.moves[0].time_s + self.took_s]
        return sum(
            end_s - event.time_s
            for event, end_s in zip(self.moves, ends, strict=True)
            if event.payload.stage in stages
        )

    def __str__(self) -> str:
        return (
            f"{self.node} in {elapsed(self.took_s)} ({elapsed(self.spent_s(_QUEUED))} in the "
            f"queue, {elapsed(self.spent_s(_CREATED))} being created, "
            f"{elapsed(self.spent_s(_STARTED))} until its first step)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """Every slice that was lost is replaced in time, and its learner makes a step there.

    The finding tells how long each repair took: waiting in the provider's queue, the creation of
    the slice, and the start of its learner, apart.
    """

    name: ClassVar[str] = "repairs"
    summary: ClassVar[str] = "each lost slice is replaced in time, and its learner steps there"

    within_s: Duration = 1800.0
    """Longest time from the beginning of a repair to the first step of its learner."""

    def __post_init__(self) -> None:
        if self.within_s <= 0:
            raise PlanError("must be above 0s", key="within")

    def judge(self, history: History) -> Finding:
        """Judge each repair; one that the end of the record cut short is a doubt."""
        found = list(_repairs(history))
        longest_s = max((one.took_s for one in found), default=0.0)
        return conclude(
            self.name,
            [self._problem(one) for one in found],
            nothing=Doubt(Code.NO_FAULT, "no slice was lost"),
            passed=f"repaired: {'; '.join(map(str, found))}",
            samples=len(found),
            measured=Measured(longest_s, self.within_s, Unit.SECONDS) if found else None,
            numbers=_numbers(found),
        )

    def _problem(self, repair: _Repair) -> Violation | Doubt | None:
        last = repair.last
        if last.payload.stage == "given_up":
            text = f"the slice of {repair.node} was given up: {last.payload.detail}"
            return Violation.at(last, Code.REPAIR_GIVEN_UP, text, repair.node)
        if repair.took_s > self.within_s:
            text = (
                f"{repair} was not fast enough: the bound is {self.within_s:g} s"
                if repair.is_over
                else f"{repair.node} was not repaired in {self.within_s:g} s"
            )
            return Violation.at(last, Code.TOO_LATE, text, repair.node)
        if not repair.is_over:
            text = f"the record ended while {repair.node} was {last.payload.stage}"
            return Doubt(Code.TOO_LITTLE_TIME, text)
        return None


def _repairs(history: History) -> Iterator[_Repair]:
    """Repairs in the order of their beginning; an attempt with another slice continues one."""
    moves: dict[str, list[Event[RepairMoved]]] = {}
    for event in history.of(RepairMoved):
        moves.setdefault(event.payload.node, []).append(event)
    for events in moves.values():
        begins = [
            place
            for place, event in enumerate(events)
            if place == 0 or events[place - 1].payload.stage in ("back", "given_up")
        ]
        for begin, end in pairwise([*begins, len(events)]):
            yield _Repair(moves=tuple(events[begin:end]), end_s=history.end_s)


def _numbers(found: Sequence[_Repair]) -> Mapping[str, Json]:
    if not found:
        return {}
    return {
        "repairs": len(found),
        "longest_queue_s": round(max(one.spent_s(_QUEUED) for one in found), 3),
        "longest_creation_s": round(max(one.spent_s(_CREATED) for one in found), 3),
        "longest_start_s": round(max(one.spent_s(_STARTED) for one in found), 3),
        "slices": sum(one.last.payload.attempt for one in found),
        "preemptions": sum(one.moves[0].payload.cause == "preemption" for one in found),
    }
