"""Orders, predictions and notes of people about a fault of a game-day.

fault.held ──── held ────► go, skip or abort ─► injected ──► first note that names it
predictions, until it begins                        └─────── heal, abort: before its time
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaoslab.checks.timeline import training_end_s
from chaoslab.core.events import Event
from chaoslab.core.payloads import (
    Action,
    FaultHeld,
    FaultSkipped,
    OperatorActed,
    OperatorNoted,
    OperatorPredicted,
)
from chaoslab.gameday.effects import Span
from chaoslab.record.history import FaultStory, History

_ENDS_A_HOLD = frozenset({Action.GO, Action.SKIP, Action.ABORT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Order of an operator, and its result."""

    by: str
    action: Action
    reason: str
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Latest answers of one person about a fault; None: no answer."""

    by: str
    continues: bool | None = None
    gap_s: float | None = None
    hit: tuple[str, ...] | None = None
    back_s: float | None = None


def held(history: History, spec: str) -> Span | None:
    """Time for which it waited; to the end of training if no operator decided."""
    event = next((one for one in history.of(FaultHeld) if one.payload.spec == spec), None)
    if event is None:
        return None
    decided = next(
        (
            acted
            for acted in history.of(OperatorActed)
            if acted.seq > event.seq
            and acted.payload.action in _ENDS_A_HOLD
            and (acted.payload.spec == spec or acted.payload.action is Action.ABORT)
        ),
        None,
    )
    end_s = decided.time_s if decided else max(event.time_s, training_end_s(history))
    return Span(length_s=end_s - event.time_s, is_whole=decided is not None)


def decisions(history: History, spec: str, stories: Sequence[FaultStory]) -> Iterator[Decision]:
    """Decisions of operators that concerned it."""
    for event in history.of(OperatorActed):
        said = event.payload
        concerns = said.spec == spec
        if said.action is Action.HEAL and not said.spec:
            concerns = any(_is_open(story, event) for story in stories)
        elif said.action is Action.ABORT:
            concerns = _is_undecided(history, spec, stories, event)
            concerns = concerns or any(_is_open(story, event) for story in stories)
        if concerns:
            yield Decision(by=said.by, action=said.action, reason=said.reason, time_s=event.time_s)


def _is_open(story: FaultStory, event: Event) -> bool:
    is_begun = story.injecting.seq < event.seq
    return is_begun and (story.healed is None or event.seq < story.healed.seq)


def _is_undecided(history: History, spec: str, stories: Sequence[FaultStory], event: Event) -> bool:
    """Whether nothing of it had been begun or left out when an event came."""
    left_out = [one.seq for one in history.of(FaultSkipped) if one.payload.spec == spec]
    begun = [story.injecting.seq for story in stories]
    return min([*left_out, *begun], default=event.seq) >= event.seq


def healed_early(history: History, stories: Sequence[FaultStory]) -> Iterator[str]:
    """Injections that operators healed: who, how long each was open, and should have been.

    The run loop heals at once, so the first heal after an order is the one that was asked for.
    """
    asked = [
        event
        for event in history.of(OperatorActed)
        if event.payload.action in (Action.HEAL, Action.ABORT)
    ]
    for story in stories:
        named = [e for e in asked if e.payload.spec in ("", story.spec) and _is_open(story, e)]
        if not named or story.healing is None or story.injected is None:
            continue
        if named[0].seq > story.healing.seq:
            continue  # its time had come already, and the heal was tried again
        open_s = max(0.0, story.healing.time_s - story.injected.time_s)
        for_s = story.injecting.payload.for_s
        planned = "never" if for_s is None else f"{for_s:g} s"
        yield f"by {named[0].payload.by} after {open_s:.2f} s instead of {planned}"


def first_note(
    history: History, spec: str, injected: Event, *, also: Iterable[str] = ()
) -> Event[OperatorNoted] | None:
    """The first note after the injection that names the fault: by its field or in its text, or in
    its text one of the names in `also`.
    """

    def names_it(event: Event[OperatorNoted]) -> bool:
        said = event.payload
        return said.spec == spec or _names(said.text, spec, *also)

    since = injected.seq, injected.time_s
    notes = (e for e in history.of(OperatorNoted) if e.seq > since[0] and e.time_s >= since[1])
    return next(filter(names_it, notes), None)


def _names(text: str, *names: str) -> bool:
    """Whether one of these names occurs in a text as a word of its own."""
    return bool(re.search(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])", text))


def predictions(history: History, spec: str, *, before_seq: int) -> tuple[Prediction, ...]:
    """Latest answer of each person to each question, before an event.

    Later answers, while further injections wait or it is repeated, are no predictions of it.
    """
    found: dict[str, Prediction] = {}
    for event in history.of(OperatorPredicted):
        said = event.payload
        if said.spec == spec and event.seq < before_seq:
            found[said.by] = _latest(found.get(said.by, Prediction(by=said.by)), said)
    return tuple(found.values())


def _latest(before: Prediction, said: OperatorPredicted) -> Prediction:
    return Prediction(
        by=before.by,
        continues=before.continues if said.continues is None else said.continues,
        gap_s=before.gap_s if said.gap_s is None else said.gap_s,
        hit=before.hit if said.hit is None else said.hit,
        back_s=before.back_s if said.back_s is None else said.back_s,
    )
