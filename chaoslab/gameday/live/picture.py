"""Picture for the live page: the story of the run, and what people decided and predicted.

    Event ─► Picture.see ─► RunStory: learners, injections, rounds, counts, what waits
                        ├─► changes and predictions of each fault
                        ├─► messages: sentences, and what became of orders
                        └─► curves of the last minutes, as the page of a report has them

Until a fault is injected, predictions of it are hidden from all, so that none is copied, and its
targets from viewers, who are asked to predict them. Draws and sends nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from chaoslab.core import payloads
from chaoslab.core.events import Event, Json, Kind, MalformedEvent
from chaoslab.core.payloads import Action
from chaoslab.core.units import plural
from chaoslab.gameday.live.access import Role
from chaoslab.gameday.orders import Names
from chaoslab.plan.model import FaultPlan
from chaoslab.report.sentences import Sentence
from chaoslab.report.story import RunStory
from chaoslab.report.story_parts import Fault, Node
from chaoslab.report.web.picture import live_data

Message: TypeAlias = Mapping[str, Json]


class RoleMessages(NamedTuple):
    """A message, as it is for each role."""

    operators: Message
    viewers: Message

    def to(self, role: Role) -> Message:
        """The message for this role."""
        return self.operators if role is Role.OPERATOR else self.viewers


_CURVES_S: Final = 120.0
"""Curves show so much of the run."""
_NAMES_TARGETS: Final = frozenset({Action.MILDER, Action.STRONGER})
"""Orders whose reason says what the fault will hit."""
_START: Final = frozenset({"", "start"})
"""Phases in which nodes come up, line by line, …"""
_START_LINES: Final = frozenset(
    {
        Kind.RUN_STARTED,
        Kind.GAMEDAY_OPENED,
        Kind.PHASE_ENTERED,
        Kind.NODE_STARTED,
        Kind.SYNCER_READY,
        Kind.COMMUNICATOR_FORMED,
        Kind.LINK_STARTED,
        Kind.LINK_OPENED,
        Kind.MEMBER_JOINED,
    }
)
"""… and the events that say it."""
_OWN: Final = frozenset({Kind.OPERATOR_REFUSED, Kind.OPERATOR_PREDICTED})


class Stage(StrEnum):
    """Stage of a fault."""

    TO_COME = "to come"
    WAITS = "waits"
    """Its trigger has come, and an operator decides."""
    ACTIVE = "active"
    """One of its injections is not healed yet."""
    OVER = "over"
    SKIPPED = "skipped"


class Picture:
    """The story of a run, as each role may see it."""

    def __init__(self, plan: FaultPlan, *, is_kept: bool) -> None:
        """`is_kept`: the run goes on until an operator asks for its end."""
        self.plan, self.is_kept = plan, is_kept
        self.story = RunStory(plan.training.stop, samples_s=_CURVES_S)
        self._said = 0
        self._faults = {one.id: one.fault for one in plan.faults}
        """Faults by entry of the plan; a sealed one from its beginning on."""
        self._changed: dict[str, str] = {}
        """Targets of an entry after it was made milder or stronger."""
        self._predictions: defaultdict[str, dict[str, dict[str, Json]]] = defaultdict(dict)
        """Latest answer to each question, by entry and person."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return bool(self.story.outcome)

    @staticmethod
    def cares_for(kind: Kind) -> bool:
        """Whether events of this kind change anything here."""
        return kind in _OWN or RunStory.cares_for(kind)

    def see(self, event: Event) -> tuple[RoleMessages, ...]:
        """Take one event in; the messages that it is worth."""
        sentences: Iterable[Sentence] = self.story.see(event)
        try:
            match event.payload if self.cares_for(event.kind) else None:
                case payloads.OperatorActed() as acted:
                    return (self._acted(acted), *self._of_order(acted, sentences))
                case payloads.OperatorRefused() as refused:
                    answer = _answer(refused.by, refused.spec, refused.asked, refused.reason)
                    return RoleMessages(answer, answer), *map(self._numbered, sentences)
                case payloads.OperatorPredicted() as predicted:
                    sentences = [self._predicted(predicted, event.time_s)]
                case payloads.FaultInjecting() as begun:
                    self._faults.setdefault(begun.spec, begun.fault)
        except MalformedEvent:  # the story has counted it
            return ()
        is_of_start = event.kind in _START_LINES and self.story.phase in _START
        return tuple(self._numbered(one, is_of_start=is_of_start) for one in sentences)

    def _acted(self, said: payloads.OperatorActed) -> RoleMessages:
        """Note the result of an order."""
        is_hidden = said.action in _NAMES_TARGETS
        if is_hidden:
            self._changed[said.spec] = said.reason
        if said.action is Action.END:
            self.is_kept = False
        asked = f"{said.action} {said.spec}".rstrip()
        answer = _answer(said.by, said.spec, asked, said.reason, is_done=True)
        return RoleMessages(answer, {**answer, "reason": ""} if is_hidden else answer)

    def _of_order(
        self, said: payloads.OperatorActed, sentences: Iterable[Sentence]
    ) -> Iterable[RoleMessages]:
        """Sentence of an order, for viewers without the targets of the fault."""
        is_hidden = said.action in _NAMES_TARGETS
        for one in sentences:
            for_viewers = f"{said.by}: {said.action} {said.spec}" if is_hidden else one.text
            yield self._numbered(one, for_viewers)

    def _predicted(self, said: payloads.OperatorPredicted, time_s: float) -> Sentence:
        """Keep it; its sentence, which hides it."""
        answers: dict[str, Json] = {
            "continues": said.continues,
            "gap_s": said.gap_s,
            "hit": None if said.hit is None else list(said.hit),
            "back_s": said.back_s,
        }
        known = self._predictions[said.spec].setdefault(said.by, {})
        known.update({key: value for key, value in answers.items() if value is not None})
        number = plural(len(self._predictions[said.spec]), "prediction")
        return Sentence(time_s=time_s, text=f"{said.by} predicts what {said.spec} does: {number}")

    def _numbered(
        self, sentence: Sentence, for_viewers: str | None = None, *, is_of_start: bool = False
    ) -> RoleMessages:
        self._said += 1
        message: Message = {
            "type": "sentence",
            "n": self._said,
            "time_s": sentence.time_s,
            "text": sentence.text,
            "tone": sentence.tone.value,
            "is_of_start": is_of_start,
        }
        return RoleMessages(message, {**message, "text": for_viewers or sentence.text})

    # ---------------------------------------------------------------- the state

    @property
    def run(self) -> dict[str, Json]:
        """Which run it is, and what goes on in it."""
        story = self.story
        return {
            "plan": story.plan or self.plan.name,
            "seed": story.seed if story.plan else self.plan.seed,
            "fleet": story.fleet,
            "moment": story.moment,
            "outcome": story.outcome,
        }

    def to_json(self, role: Role) -> dict[str, Json]:
        """All but the sentences, as it is for this role."""
        story, charter, rounds = self.story, self.plan.charter, self.story.rounds
        undecided = [spec for spec in self.plan.held if spec not in story.decisions.decided]
        return {
            **self.run,
            "who": story.who,
            "counted": story.counted,
            "time_s": story.now_s,
            "is_over": self.is_over,
            "can_end": self.is_kept and not self.is_over and not undecided,
            "charter": {
                "owner": charter.owner,
                "facilitator": charter.facilitator,
                "scribe": charter.scribe,
                "responders": list(charter.responders),
            },
            "rounds": rounds.merged,
            "last_round_s": rounds.last_s,
            "longest_gap_s": rounds.longest_gap_s,
            "tokens_per_s": rounds.tokens_per_s,
            "progress": story.progress,
            "counts": dict(story.counts),
            "nodes": list(Names.of(self.plan).nodes),
            "lanes": [self._lane(one) for one in story.nodes.learners],
            "faults": [self._card(spec, role) for spec in self._faults],
        }

    def curves(self) -> Message:
        """Nodes, tokens and losses of the last minutes, the same for each role."""
        return {"type": "curves", **live_data(self.story, _CURVES_S)}

    def _lane(self, learner: Node) -> Json:
        return {
            "name": learner.name,
            "state": learner.state.value,
            "step": learner.step,
            "step_s": learner.step_s,
            "loss": learner.loss,
            "contributed_s": learner.contributed_s,
            "faults": [one.spec or one.fault for one in self.story.faults_on(learner.name)],
        }

    def _card(self, spec: str, role: Role) -> Json:
        injections = [one for one in self.story.faults.values() if one.spec == spec]
        held, predictions = self.story.decisions.held.get(spec), self._predictions[spec]
        is_operator = role is Role.OPERATOR
        predicted: list[Json] = [{"by": by, **what} for by, what in predictions.items()]
        return {
            "spec": spec,
            "fault": self._faults[spec],
            "stage": self._stage(spec, injections).value,
            "is_held": spec in self.plan.held and spec not in self.story.decisions.decided,
            "hypothesis": self.plan.charter.hypotheses.get(spec, ""),
            "trigger": held["trigger"] if held else "",
            "targets": held["targets"] if held and is_operator else [],
            "injections": held["injections"] if held else 0,
            "changed": self._changed.get(spec, "") if is_operator else "",
            "skipped": self.story.decisions.skipped.get(spec, ""),
            "predictions": len(predictions),
            "predicted": predicted if injections else [],
            "bars": [_bar(one) for one in injections],
        }

    def _stage(self, spec: str, injections: Iterable[Fault]) -> Stage:
        if any(one.is_open for one in injections):
            return Stage.ACTIVE
        if spec in self.story.decisions.held:
            return Stage.WAITS
        if injections:
            return Stage.OVER
        return Stage.SKIPPED if spec in self.story.decisions.skipped else Stage.TO_COME


def _bar(fault: Fault) -> Json:
    return {
        "injection": fault.injection,
        "targets": list(fault.targets),
        "status": fault.status,
        "is_open": fault.is_open,
        "from_s": fault.from_s,
        "heals_s": fault.heals_s,
        "healed_s": fault.healed_s,
        "takes_away": fault.takes_away,
        "back_after_s": dict(fault.back_after_s),
    }


def _answer(by: str, spec: str, asked: str, reason: str, *, is_done: bool = False) -> Message:
    return {
        "type": "answer",
        "by": by,
        "fault": spec,
        "asked": asked,
        "is_done": is_done,
        "reason": reason,
    }
