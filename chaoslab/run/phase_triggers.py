"""Phase triggers: nodes are asked to announce a point of the protocol, and may wait there.

    waiting injections ─► ask ─► fleet.tell("watch") ══► node … phase.reached ─► announced
                                                          ▲ waits                    │ injected
                                                          └── let_go: "go" ◄─────────┘

A watch counts once, for one life of a node: one that starts again is asked again. No node that is
not needed any more goes on being watched.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event
from chaoslab.core.payloads import PhaseReached
from chaoslab.fleet.protocols import Hookable, able
from chaoslab.plan.model import Injection, Trigger
from chaoslab.run.event_recorder import EventRecorder
from chaoslab.run.verbs import Verbs


class _Question(NamedTuple):
    """One life of a node, and the number of the trigger that it was asked about."""

    node: str
    incarnation: int
    trigger: int


@dataclass(slots=True, kw_only=True)
class PhaseTriggers:
    """Questions to nodes in one run."""

    recorder: EventRecorder
    verbs: Verbs
    _asked: dict[_Question, int] = field(default_factory=dict)
    """With how many events in the journal: only what came later is an answer."""
    _triggers: list[Trigger] = field(default_factory=list)
    """Each once; their numbers are compared in their place, which is faster."""
    _numbers: dict[str, int] = field(default_factory=dict)
    """Of the triggers, by injection."""
    _heard: dict[str, tuple[int, Event[PhaseReached] | None]] = field(default_factory=dict)
    """By injection: how many announcements were looked at, and the first that was an answer."""

    def ask(self, injections: Iterable[Injection]) -> None:
        """Ask all living nodes that these wait for and that have not been asked yet."""
        progress = self.recorder.progress
        for injection in injections:
            if injection.trigger.phase is None or progress.rounds < injection.trigger.after_round:
                continue
            number = self._number(injection)
            for node in filter(progress.is_alive, injection.watched):
                question = _Question(node, progress.incarnations[node], number)
                if question not in self._asked and node not in self.verbs.busy:
                    self.verbs.begin(self._ask(question, injection.trigger))

    def announced(self, injection: Injection) -> Event[PhaseReached] | None:
        """The first answer to the question of this injection."""
        known, answer = self._heard.get(injection.id, (0, None))
        events = self.recorder.journal.history.of(PhaseReached)
        if answer is None and len(events) > known:
            new = events[known:]
            answer = next((event for event in new if self._is_answer(event, injection)), None)
            self._heard[injection.id] = len(events), answer
        return answer

    def _is_answer(self, event: Event[PhaseReached], injection: Injection) -> bool:
        said = event.payload
        if said.phase != injection.trigger.phase or event.source not in injection.watched:
            return False
        asked = self._asked.get(
            _Question(event.source, said.incarnation, self._number(injection)), math.inf
        )
        return event.seq >= asked

    def _number(self, injection: Injection) -> int:
        if injection.id not in self._numbers:
            if injection.trigger not in self._triggers:
                self._triggers.append(injection.trigger)
            self._numbers[injection.id] = self._triggers.index(injection.trigger)
        return self._numbers[injection.id]

    async def let_go(self, injections: Iterable[Injection]) -> None:
        """One is carried out: all nodes go on, and only for these others are nodes watched."""
        for node in dict.fromkeys(question.node for question in self._asked):
            if self.recorder.progress.is_alive(node):
                await self._tell(node, "watch")
        self._asked.clear()
        self._heard.clear()
        self.ask(injections)

    async def _ask(self, question: _Question, trigger: Trigger) -> None:
        phase = trigger.phase
        since = len(self.recorder.journal.history.events)
        if phase and await self._tell(
            question.node, "watch", phase=phase.value, wait_s=trigger.wait_s
        ):
            self._asked[question] = since

    async def _tell(self, node: str, do: str, **facts: str | float) -> bool:
        """Whether it could be told: it may have died a moment ago, and that is not known yet."""
        tell = partial(able(self.recorder.fleet, Hookable).tell, node, do, **facts)
        try:
            await self.verbs.call([node], tell, what=do)
        except FleetError:
            return False
        return True
