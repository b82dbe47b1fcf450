"""Context of a run, shared by its pods, and the queue on which their threads report.

threads ── Arrival ──► `RunContext.arrivals` ──► the fleet's one thread
"""

import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.run_objects import RunObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something that another thread leaves for the fleet's thread."""

    observe: Callable[[], Sequence[Observation]] = tuple
    """Called there; what it observed."""
    error: FleetError | None = None
    """Raised there, unless the fleet is closing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """What all pods of a run share."""

    run_objects: RunObjects
    arrivals: "queue.Queue[Arrival]"
    start_s: float
    """How long a pod may take to start."""
    last_of: Callable[[str], PodState | None] = lambda _: None
    """A pod that is gone, by its name, as it was seen last."""

    def hand_over(self, arrival: Arrival, *, is_wanted: Callable[[], bool]) -> None:
        """From another thread: wait while the queue is full, as long as it is wanted."""
        while is_wanted():
            with suppress(queue.Full):
                self.arrivals.put(arrival, timeout=0.5)
                return
