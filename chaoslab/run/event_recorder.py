"""Recorder of events: the one way into the record of a run, where all is stamped and shown.

    Fleet.poll ──► EventRecorder.read ─┐
    harness ─────► EventRecorder.note ─┴─► Journal.write ─► Progress.see

A node that breaks the contract of its events ends the run.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, MalformedEvent, Observation, Payload
from chaoslab.fleet.base import Fleet
from chaoslab.record.journal import Journal
from chaoslab.run.triggers import Progress

_LOOK_S = 0.05
"""Time between two looks at what nodes say in other places than their output."""
_DRAINS_MOST = 10
"""Nodes may talk faster than they are read."""


@dataclass(slots=True, kw_only=True)
class EventRecorder:
    """What happens on a fleet, as the journal and the progress of its run."""

    fleet: Fleet
    journal: Journal
    progress: Progress = field(default_factory=Progress)
    derive: Callable[[Event], Sequence[Observation]] = lambda _: ()
    """What follows from an event, to be recorded after it."""
    other_sources: list[Callable[[], Sequence[Observation]]] = field(default_factory=list)
    """What is known of nodes from other places than their output."""
    _unread: deque[Observation] = field(default_factory=deque)
    """What the fleet reported and was not taken in yet."""

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return self.journal.clock.now_s()

    def read(self, until_s: float, *, leave_s: float = math.inf) -> None:
        """Take in what the fleet reports; waits for something until the clock shows `until_s`.

        What is not taken in when the clock shows `leave_s` is left for the next call.
        """
        if not self._unread:
            self._unread.extend(self._news(until_s))
        while self._unread:
            self.take(self._unread.popleft())
            if self._unread and self.now_s > leave_s:
                return

    def _news(self, until_s: float) -> Sequence[Observation]:
        """What the fleet reports; before it, and before an exit in it, what was said elsewhere."""
        if not self.other_sources:
            return self.fleet.poll(until_s)
        reported = self.fleet.poll(min(until_s, self.now_s + _LOOK_S))
        return (*(seen for read in self.other_sources for seen in read()), *reported)

    def is_starting(self, names: Iterable[str]) -> bool:
        """Whether the fleet has started one of these that has not reported its start yet."""
        nodes, known = self.fleet.nodes, self.progress.incarnations
        return any(
            nodes[name].is_alive and nodes[name].incarnation != known.get(name) for name in names
        )

    def drain(self) -> None:
        """Take in everything that can be known now, without waiting."""
        for _ in range(_DRAINS_MOST):
            known = len(self.journal.history.events)
            self.read(self.now_s)
            if len(self.journal.history.events) == known:
                return

    def take(self, seen: Observation) -> Event:
        """Record one observation. FleetError when a node broke the contract of its events."""
        try:
            event = self._write(seen)
        except MalformedEvent as error:
            raise FleetError(
                f"{seen.source} printed an event that breaks the node contract: {error}"
            ) from error
        for follows in self.derive(event):
            self.take(follows)
        return event

    def note(self, said: Payload) -> Event:
        """Record what the harness itself does or finds."""
        return self._write(Observation.of("harness", said))

    def _write(self, seen: Observation) -> Event:
        event = self.journal.write(seen)
        is_whole = event.data is seen.data
        # the journal does not show the secrets, and they steer the run
        self.progress.see(event if is_whole else replace(event, data=seen.data))
        return event
