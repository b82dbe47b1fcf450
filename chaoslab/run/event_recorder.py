"""Recorder of events: the one way into the record of a run, where all is stamped and shown.

    Fleet.poll ──► EventRecorder.read ─┐
    harness ─────► EventRecorder.note ─┴─► Journal.write ─► Progress.see

A node that breaks the contract of its events ends the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Event, Json, Kind, MalformedEvent, Observation
from chaoslab.fleet.base import Fleet
from chaoslab.record.journal import Journal
from chaoslab.run.triggers import Progress

_DRAINS_MOST = 10
"""Nodes may talk faster than they are read."""


@dataclass(slots=True, kw_only=True)
class EventRecorder:
    """What happens on a fleet, as the journal and the progress of its run."""

    fleet: Fleet
    journal: Journal
    progress: Progress = field(default_factory=Progress)

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return self.journal.clock.now_s()

    def read(self, until_s: float) -> None:
        """Take in what the fleet reports; waits for something until the clock shows `until_s`."""
        for observation in self.fleet.poll(until_s):
            self.take(observation)

    def drain(self) -> None:
        """Take in everything that can be known now, without waiting."""
        for _ in range(_DRAINS_MOST):
            known = len(self.journal.history.events)
            self.read(self.now_s)
            if len(self.journal.history.events) == known:
                return

    def take(self, observation: Observation) -> Event:
        """Record one observation. FleetError when a node broke the contract of its events."""
        event = self.journal.write(
            observation.kind, observation.data, source=observation.source, node_s=observation.node_s
        )
        try:
            self.progress.see(replace(event, data=observation.data))  # secrets included: it steers
        except MalformedEvent as error:
            raise FleetError(
                f"{observation.source} printed an event that breaks the node contract: {error}"
            ) from error
        return event

    def note(self, kind: Kind, data: Mapping[str, Json]) -> Event:
        """Record what the harness itself does or finds."""
        event = self.journal.write(kind, data)
        self.progress.see(replace(event, data=data))
        return event
