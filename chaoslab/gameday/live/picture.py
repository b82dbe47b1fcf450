"""What the live page shows, folded from the events of a run. Draws and sends nothing.

    Event ─► Picture.see ─► ViewModel: lanes, injections, rounds, counts
                        ├─► fault cards: to come · waits · open · over · skipped, predictions
                        └─► messages: sentences and what became of orders

Until a fault is injected, predictions of it are hidden from all, so that nobody copies, and its
targets from viewers, who are asked to predict them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import Action, Obstacle
from chaoslab.core.units import plural
from chaoslab.gameday.live.access import Role
from chaoslab.gameday.live.bodies import nodes_of
from chaoslab.plan.model import FaultPlan
from chaoslab.report.lanes import FaultBar, Lane
from chaoslab.report.sentences import Sentence
from chaoslab.report.view import ViewModel

Message: TypeAlias = Mapping[str, Json]


class Told(NamedTuple):
    """A message, as it is for each role."""

    operators: Message
    viewers: Message

    def to(self, role: Role) -> Message:
        """As it is for this role."""
        return self.operators if role is Role.OPERATOR else self.viewers


SENTENCES_MOST: Final = 100
"""Sentences that a new viewer gets."""
_NAMES_TARGETS: Final = frozenset({Action.MILDER, Action.STRONGER})
"""Orders whose reason says what the fault will hit."""


class Stage(StrEnum):
    """Where an entry of the plan stands."""

    TO_COME = "to come"
    WAITS = "waits"
    """Its trigger has come, and an operator decides."""
    OPEN = "open"
    OVER = "over"
    SKIPPED = "skipped"


@dataclass(slots=True, kw_only=True)
class _Card:
    """One entry of the plan."""

    spec: str
    fault: str
    hypothesis: str
    is_held: bool
    """Whether it waits for an operator, once its trigger comes."""
    held: payloads.FaultHeld | None = None
    """Its trigger has come, and nobody has decided yet."""
    is_decided: bool = False
    changed: str = ""
    """What it hits after it was made milder or stronger."""
    skipped: str = ""
    """Why it was left out."""
    predictions: dict[str, dict[str, Json]] = field(default_factory=dict)
    """By person, the latest answer to each question."""


class Picture:
    """The fold over a run's events."""

    def __init__(self, plan: FaultPlan, *, is_kept: bool) -> None:
        """`is_kept`: the run goes on until an operator asks for its end."""
        self.plan, self.is_kept = plan, is_kept
        self.view = ViewModel(plan.training.stop)
        self.is_over = False
        self.outcome = ""
        self._said = 0
        self._sentences: deque[Told] = deque(maxlen=SENTENCES_MOST)
        charter = plan.charter
        self._cards = {
            one.id: _Card(
                spec=one.id,
                fault=one.fault,
                hypothesis=charter.hypotheses.get(one.id, ""),
                is_held=one.id in plan.held,
            )
            for one in plan.faults
        }

    @staticmethod
    def cares_for(kind: Kind) -> bool:
        """Whether events of this kind change anything here."""
        return kind in Picture._FOLDS or ViewModel.cares_for(kind)

    def see(self, event: Event) -> tuple[Told, ...]:
        """Take one event in; the messages that it is worth."""
        said = self.view.see(event)
        fold = self._FOLDS.get(event.kind)
        try:
            answer = fold(self, event) if fold else None
            hidden = self._for_viewers(event)
        except MalformedEvent:
            return ()  # the view has counted it
        if isinstance(event.payload, payloads.OperatorPredicted):
            said = (self._hidden(event.payload, event.time_s),)
        answers = () if answer is None else (answer,)
        return (*answers, *(self._numbered(one, hidden or one.text) for one in said))

    def to_json(self, role: Role) -> dict[str, Json]:
        """All but the sentences, as it is for this role."""
        view, charter = self.view, self.plan.charter
        return {
            "plan": view.plan or self.plan.name,
            "seed": view.seed if view.plan else self.plan.seed,
            "fleet": view.fleet,
            "phase": view.phase,
            "time_s": view.now_s,
            "is_over": self.is_over,
            "outcome": self.outcome,
            "can_end": self.is_kept and not self.is_over and not self._is_anything_held,
            "charter": {
                "owner": charter.owner,
                "facilitator": charter.facilitator,
                "scribe": charter.scribe,
                "responders": list(charter.responders),
            },
            "rounds": view.rounds.merged,
            "last_round_s": view.rounds.last_s,
            "longest_gap_s": view.rounds.longest_gap_s,
            "tokens_per_s": view.rounds.tokens_per_s,
            "progress": view.progress,
            "counts": dict(view.counts),
            "nodes": list(nodes_of(self.plan)),
            "lanes": [self._lane(lane) for lane in view.lanes.values()],
            "faults": [self._shown(card, role) for card in self._cards.values()],
        }

    def sentences(self, role: Role) -> list[Message]:
        """The latest ones, oldest first."""
        return [told.to(role) for told in self._sentences]

    # ---------------------------------------------------------------- parts of it

    def _lane(self, lane: Lane) -> Json:
        return {
            "name": lane.learner,
            "state": lane.state.value,
            "step": lane.step,
            "step_s": lane.step_s,
            "loss": lane.loss,
            "contributed_s": lane.contributed_s,
            "faults": [bar.spec or bar.fault for bar in self.view.faults_on(lane.learner)],
        }

    def _shown(self, card: _Card, role: Role) -> Json:
        bars = list(self._bars(card.spec))
        stage = self._stage(card, bars)
        is_operator = role is Role.OPERATOR
        return {
            "spec": card.spec,
            "fault": card.fault,
            "stage": stage.value,
            "is_held": card.is_held and not card.is_decided,
            "hypothesis": card.hypothesis,
            "trigger": card.held.trigger if card.held else "",
            "targets": list(card.held.targets) if card.held and is_operator else [],
            "injections": card.held.injections if card.held else 0,
            "changed": card.changed if is_operator else "",
            "skipped": card.skipped,
            "predictions": len(card.predictions),
            "predicted": [{"by": by, **what} for by, what in card.predictions.items()]
            if bars
            else [],
            "bars": [self._bar(bar) for bar in bars],
        }

    def _bar(self, bar: FaultBar) -> Json:
        return {
            "injection": bar.injection,
            "targets": list(bar.targets),
            "status": bar.status,
            "is_open": bar.is_open,
            "from_s": bar.from_s,
            "healed_s": bar.healed_s,
        }

    def _bars(self, spec: str) -> Iterator[FaultBar]:
        return (bar for bar in self.view.faults.values() if bar.spec == spec)

    def _stage(self, card: _Card, bars: list[FaultBar]) -> Stage:
        if any(bar.is_open for bar in bars):
            return Stage.OPEN
        if card.held is not None:
            return Stage.WAITS
        if bars:
            return Stage.OVER
        return Stage.SKIPPED if card.skipped else Stage.TO_COME

    @property
    def _is_anything_held(self) -> bool:
        return any(card.is_held and not card.is_decided for card in self._cards.values())

    def _hidden(self, said: payloads.OperatorPredicted, time_s: float) -> Sentence:
        card = self._cards.get(said.spec)
        number = len(card.predictions) if card else 0
        text = f"{said.by} predicts what {said.spec} does: {plural(number, 'prediction')}"
        return Sentence(time_s=time_s, text=text)

    def _for_viewers(self, event: Event) -> str:
        """The sentence of an event that names whom a fault will hit, without that; else empty."""
        said = event.payload
        if isinstance(said, payloads.OperatorActed) and said.action in _NAMES_TARGETS:
            return f"{said.by}: {said.action} {said.spec}"
        return ""

    def _numbered(self, sentence: Sentence, for_viewers: str) -> Told:
        self._said += 1
        message: Message = {
            "type": "sentence",
            "n": self._said,
            "time_s": sentence.time_s,
            "text": sentence.text,
            "tone": sentence.tone.value,
        }
        told = Told(message, {**message, "text": for_viewers})
        self._sentences.append(told)
        return told

    # ---------------------------------------------------------------- one method per kind of news

    def _finished(self, event: Event[payloads.RunFinished]) -> None:
        self.is_over = True
        said = event.payload
        self.outcome = f"{said.outcome}{f': {said.reason}' if said.reason else ''}"

    def _waits(self, event: Event[payloads.FaultHeld]) -> None:
        if card := self._cards.get(event.payload.spec):
            card.held = event.payload

    def _skipped(self, event: Event[payloads.FaultSkipped]) -> None:
        said = event.payload
        if card := self._cards.get(said.spec):
            card.skipped = said.reason or "left out"
            if said.obstacle in (Obstacle.OPERATOR, Obstacle.NO_TRIGGER):
                card.held, card.is_decided = None, True

    def _begun(self, event: Event[payloads.FaultInjecting]) -> None:
        """One that was sealed has its card from now on."""
        said = event.payload
        new = _Card(spec=said.spec, fault=said.fault, hypothesis="", is_held=False)
        card = self._cards.setdefault(said.spec, new)
        card.held, card.is_decided = None, True

    def _acted(self, event: Event[payloads.OperatorActed]) -> Told:
        said = event.payload
        card = self._cards.get(said.spec)
        if card and said.action in (Action.GO, Action.SKIP):
            card.held, card.is_decided = None, True
        if card and said.action in _NAMES_TARGETS:
            card.changed = said.reason
        if said.action is Action.END:
            self.is_kept = False
        answer: Message = {
            "type": "answer",
            "by": said.by,
            "fault": said.spec,
            "asked": " ".join(filter(None, (said.action.value, said.spec))),
            "is_done": True,
            "reason": said.reason,
        }
        is_hidden = said.action in _NAMES_TARGETS
        return Told(answer, {**answer, "reason": ""} if is_hidden else answer)

    def _refused(self, event: Event[payloads.OperatorRefused]) -> Told:
        said = event.payload
        answer: Message = {
            "type": "answer",
            "by": said.by,
            "fault": said.spec,
            "asked": said.asked,
            "is_done": False,
            "reason": said.reason,
        }
        return Told(answer, answer)

    def _predicted(self, event: Event[payloads.OperatorPredicted]) -> None:
        said = event.payload
        answers: dict[str, Json] = {
            "continues": said.continues,
            "gap_s": said.gap_s,
            "hit": None if said.hit is None else list(said.hit),
            "back_s": said.back_s,
        }
        if card := self._cards.get(said.spec):
            known = card.predictions.setdefault(said.by, {})
            known.update({key: value for key, value in answers.items() if value is not None})

    _FOLDS: ClassVar[Mapping[Kind, Callable[["Picture", Event[Any]], Told | None]]] = {
        Kind.RUN_FINISHED: _finished,
        Kind.FAULT_HELD: _waits,
        Kind.FAULT_SKIPPED: _skipped,
        Kind.FAULT_INJECTING: _begun,
        Kind.OPERATOR_ACTED: _acted,
        Kind.OPERATOR_REFUSED: _refused,
        Kind.OPERATOR_PREDICTED: _predicted,
    }
