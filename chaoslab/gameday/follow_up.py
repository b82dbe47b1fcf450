"""Findings of the verdict and surprises of the room, to be followed up after a game-day.

Verdict ──────► findings: checks that did not PASS ────┐
outcomes ─┬───► predictions that most got wrong ───────┤
          ├───► evidence that is not proved ───────────┼─► Items, numbered in actions.md
          ├───► sealed faults that were not noticed ───┤
          └───► faults that people skipped or healed ──┘
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoslab.checks.answers import STATUSES
from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.payloads import Action, OperatorActed, Status
from chaoslab.gameday.outcomes import FaultOutcome
from chaoslab.gameday.predictions import mistaken
from chaoslab.record.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to follow up."""

    kind: str
    """finding or surprise."""
    text: str


def findings(verdict: Verdict) -> Sequence[Item]:
    """Every check, and every rule of all runs, that did not pass."""
    return [
        Item(kind="finding", text=f"{one.outcome} {one.check}: {one.reason}")
        for one in verdict.findings
        if one.outcome is not Outcome.PASS
    ]


def surprises(history: History, found: Sequence[FaultOutcome]) -> Sequence[Item]:
    """Surprises to most people, or to the plan; in the order of the plan."""
    texts = [text for one in found for text in _of_fault(one)]
    return [Item(kind="surprise", text=text) for text in (*texts, *_aborts(history))]


def _of_fault(found: FaultOutcome) -> Iterator[str]:
    yield from mistaken(found)
    yield from _unproved(found)
    if found.is_sealed and found.is_injected and found.noticed_s is None:
        yield f"{found.spec}: no note says that it was noticed"
    if (skip := found.skipped) is not None:
        yield f"{found.spec}: skipped by {skip.by}{_because(skip.reason)}"
    yield from (f"{found.spec}: healed early {how}" for how in found.healed_early)


def _unproved(found: FaultOutcome) -> Iterator[str]:
    """One sentence for each status, with the reason of the first injection that has it."""
    for status in STATUSES:
        have = [one for one in found.evidence if one.status == status]
        if have and status != Status.PROVED:
            number = f"{len(have)} of {len(found.evidence)}"
            yield f"{found.spec}: evidence {status} for {number}: {have[0].reason}"


def _aborts(history: History) -> Iterator[str]:
    for event in history.of(OperatorActed):
        if event.payload.action is Action.ABORT:
            yield f"aborted by {event.payload.by}{_because(event.payload.reason)}"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
