"""What all containers of a run share, and the queue on which their threads report.

threads ── Arrival ──► `RunContext.arrivals` ──► the fleet's one thread
"""

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.docker.engine.engine import Limits
from chaoslab.fleet.docker.run_resources import HOME, RunResources
from chaoslab.fleet.incarnation_files import Place

NODE: Final = f"{HOME}/node"
SHARED: Final = f"{HOME}/shared"
CACHE: Final = f"{HOME}/cache"
HEALTH: Final = "/tmp/health"  # noqa: S108 - of a container, where docker/Dockerfile looks for it
ENTRY: Final = ("/bin/sh", "-c", "trap '' USR1 USR2 HUP; exec \"$@\"", "node")
"""The hooks do nothing to a program until it takes them up, as with a local node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """Clock, limits, resources and queue of one run."""

    run_resources: RunResources
    limits: Limits
    mounts: Mapping[str, str]
    """Folders of this machine that every node may read, and where it sees them."""
    arrivals: "queue.Queue[Arrival]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Something that another thread leaves for the fleet's thread."""

    observe: Callable[[], Sequence[Observation]] = tuple
    """Called there; what it observed."""
    error: FleetError | None = None
    """Raised there, unless the fleet is closing."""
