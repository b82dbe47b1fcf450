"""Phase triggers: nodes are asked to announce a point of the protocol, and may be held there.

    waiting injections ─► ask ─► fleet.tell("watch") ══► node … phase.reached ─► announced
                                                          ▲ waits                    │ injected
                                                          └── let_go: "go" ◄─────────┘

A watch counts once, for one life of a node: who starts again is asked again. Nobody who is not
needed any more goes on being watched.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event
from chaoslab.core.payloads import PhaseReached
from chaoslab.fleet.protocols import Hookable, able
from chaoslab.plan.model import Injection, Trigger
from chaoslab.run.event_recorder import EventRecorder


@dataclass(frozen=True, slots=True)
class _Life:
    node: str
    incarnation: int


@dataclass(slots=True, kw_only=True)
class PhaseTriggers:
    """Who has been asked what, in one run."""

    recorder: EventRecorder
    _asked: dict[tuple[_Life, Trigger], int] = field(default_factory=dict)
    """With how many events in the journal: only what came later is an answer."""

    def ask(self, injections: Iterable[Injection]) -> None:
        """Ask all living nodes that these wait for and that have not been asked yet."""
        progress = self.recorder.progress
        for injection in injections:
            if injection.trigger.phase is None or progress.rounds < injection.trigger.after_round:
                continue
            for node in filter(progress.is_alive, injection.watched):
                self._ask(_Life(node, progress.incarnations[node]), injection.trigger)

    def announced(self, injection: Injection) -> Event[PhaseReached] | None:
        """The first answer to the question of this injection."""
        for event in self.recorder.journal.history.of(PhaseReached):
            life = _Life(event.source, event.payload.incarnation)
            asked = self._asked.get((life, injection.trigger))
            if asked is None or event.seq < asked or event.source not in injection.watched:
                continue
            if event.payload.phase == injection.trigger.phase:
                return event
        return None

    def let_go(self, injections: Iterable[Injection]) -> None:
        """One is carried out: everybody goes on, and only for these others is anybody watched."""
        for life in dict.fromkeys(life for life, _ in self._asked):
            if self.recorder.progress.is_alive(life.node):
                self._tell(life.node, "watch")
        self._asked.clear()
        self.ask(injections)

    def _ask(self, life: _Life, trigger: Trigger) -> None:
        if (life, trigger) in self._asked or trigger.phase is None:
            return
        since = len(self.recorder.journal.history.events)
        if self._tell(life.node, "watch", phase=trigger.phase.value, hold_s=trigger.hold_s):
            self._asked[life, trigger] = since

    def _tell(self, node: str, do: str, **facts: str | float) -> bool:
        """Whether it could be told: it may have died a moment ago, and nobody knows it yet."""
        try:
            able(self.recorder.fleet, Hookable).tell(node, do, **facts)
        except FleetError:
            return False
        return True
