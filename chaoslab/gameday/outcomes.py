"""Outcome of each fault of a game-day: who decided, what training did, who was back when.

    record ─┬─► reactions: held, decided, predicted, noticed ──┬─► FaultOutcome of each entry
            └─► effects: longest gap, went on, back ───────────┘   of the plan

A fold of the record alone. Times are those of the verdict: when things happened, in seconds since
the run began. `predictions` holds what people expected against it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chaoslab.checks.answers import Injected
from chaoslab.checks.node_clocks import as_it_happened
from chaoslab.checks.verdict import Verdict
from chaoslab.core.payloads import Action, FaultSkipped, GamedayOpened, Obstacle
from chaoslab.gameday.effects import Span, back, continued, longest_gap
from chaoslab.gameday.reactions import (
    Decision,
    Prediction,
    decisions,
    first_note,
    healed_early,
    held,
    predictions,
)
from chaoslab.plan.model import FaultPlan, sealed_ids
from chaoslab.record.history import FaultStory, History

NOT_KNOWN: Final = "not known: it had not come"
"""Name of a sealed fault where the run ended before it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOutcome:
    """Result of one entry of the plan, or one sealed fault, over all its injections."""

    spec: str
    fault: str
    """Full name in the catalogue."""
    hypothesis: str = ""
    is_to_wait: bool = False
    """Whether it waits for an operator."""
    is_sealed: bool = False
    """Whether no participant was to see it before it came."""
    held: Span | None = None
    """Time from its trigger to a decision; None: it never waited."""
    decisions: tuple[Decision, ...] = ()
    injected_s: float | None = None
    """Time at which the first of its injections was in; None: none was."""
    healed_s: float | None = None
    """Time at which the last one was healed; None: one never was."""
    healed_early: tuple[str, ...] = ()
    """By whom and when operators healed an injection, as the end of a sentence."""
    evidence: tuple[Injected, ...] = ()
    """Evidence of each injection, without those that an operator left out."""
    continued: bool | None = None
    """Whether training went on; None: not injected, not measured, or cut short."""
    longest_gap: Span | None = None
    """Longest time without a merged round while it was open or its victims were not back."""
    hit: tuple[str, ...] = ()
    """Names of the nodes that were hit."""
    back: Span | None = None
    """Time from the heal until all victims contributed; None: no node was taken away."""
    noticed_s: float | None = None
    """Time from the injection to the first note that names the fault, of a sealed one also its
    injection or a node that it hit; None: it was not noticed."""
    noticed_by: str = ""
    predictions: tuple[Prediction, ...] = ()
    """By person, in the order in which they first spoke; nothing that came after it had begun."""

    @property
    def is_injected(self) -> bool:
        """Whether there is anything to compare predictions with."""
        return self.injected_s is not None

    @property
    def skipped(self) -> Decision | None:
        """Who left it out; None: no operator did."""
        return next((one for one in self.decisions if one.action is Action.SKIP), None)


def outcomes(history: History, verdict: Verdict, plan: FaultPlan) -> tuple[FaultOutcome, ...]:
    """Outcome of each entry of the plan, in its order, then of each sealed fault.

    MalformedEvent if a line of the record is broken.
    """
    timed = as_it_happened(history)
    opened = timed.last(GamedayOpened)
    charter = opened.payload if opened else None
    hypotheses = charter.hypotheses if charter else plan.charter.hypotheses
    holds = charter.holds if charter else tuple(plan.held)
    planned = [
        FaultOutcome(
            spec=spec.id,
            fault=spec.fault,
            hypothesis=hypotheses.get(spec.id, ""),
            is_to_wait=spec.id in holds,
        )
        for spec in plan.faults
    ]
    return tuple(_outcome(timed, verdict, one) for one in (*planned, *_sealed(timed)))


def _sealed(history: History) -> Iterator[FaultOutcome]:
    """Known facts about each sealed fault."""
    opened = history.last(GamedayOpened)
    known = {story.spec: story.fault for story in history.faults}
    known |= {e.payload.spec: e.payload.fault for e in history.of(FaultSkipped)}
    for spec in sealed_ids(opened.payload.sealed if opened else 0):
        yield FaultOutcome(spec=spec, fault=known.get(spec, NOT_KNOWN), is_sealed=True)


def _outcome(history: History, verdict: Verdict, about: FaultOutcome) -> FaultOutcome:
    """The same with what the record says of it."""
    spec = about.spec
    stories = [story for story in history.faults if story.spec == spec]
    began_seq = stories[0].injecting.seq if stories else len(history.events)
    known = replace(
        about,
        held=held(history, spec),
        decisions=tuple(decisions(history, spec, stories)),
        evidence=tuple(_evidence(history, verdict, spec)),
        predictions=predictions(history, spec, before_seq=began_seq),
    )
    carried_out = [story for story in stories if story.injected is not None]
    return _injected(history, known, carried_out) if carried_out else known


def _injected(history: History, known: FaultOutcome, stories: Sequence[FaultStory]) -> FaultOutcome:
    """The outcome with the effects of its injections, at least one."""
    gap = longest_gap(history, known.spec)
    injected = next(story.injected for story in stories if story.injected is not None)
    hit = tuple(dict.fromkeys(name for story in stories for name in story.targets))
    shown = (*hit, *(story.injection for story in stories)) if known.is_sealed else ()
    note = first_note(history, known.spec, injected, also=shown)
    return replace(
        known,
        injected_s=injected.time_s,
        healed_s=_healed_s(stories),
        healed_early=tuple(healed_early(history, stories)),
        continued=continued(history, gap),
        longest_gap=gap,
        hit=hit,
        back=back(history, known.spec),
        noticed_s=note.time_s - injected.time_s if note else None,
        noticed_by=note.payload.by if note else "",
    )


def _healed_s(stories: Sequence[FaultStory]) -> float | None:
    healed = [story.healed.time_s for story in stories if story.healed is not None]
    return max(healed) if len(healed) == len(stories) else None


def _evidence(history: History, verdict: Verdict, spec: str) -> Iterator[Injected]:
    specs = {story.injection: story.spec for story in history.faults}
    skipped = [event.payload for event in history.of(FaultSkipped)]
    specs |= {one.injection: one.spec for one in skipped}
    left_out = {one.injection for one in skipped if one.obstacle is Obstacle.OPERATOR}
    for one in verdict.injections:
        if specs.get(one.id) == spec and one.id not in left_out:
            yield one
