"""What all containers of a run share, and how the one for a life of a node is asked for.

RunContext + NodeSpec, incarnation, image ─► container_of ─► ContainerSpec
threads ── Arrival ──► `arrivals` ──► the fleet's one thread
"""

import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Observation
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Limits
from chaoslab.fleet.docker.run_resources import HOME, LABEL_NODE, RunResources
from chaoslab.fleet.incarnation_files import Place

NODE: Final = f"{HOME}/node"
SHARED: Final = f"{HOME}/shared"
CACHE: Final = f"{HOME}/cache"
HEALTH: Final = "/tmp/health"  # noqa: S108 - of a container, where docker/Dockerfile looks for it
ENTRY: Final = ("/bin/sh", "-c", "trap '' USR1 USR2 HUP; exec \"$@\"", "node")
"""The hooks do nothing to a program until it takes them up, as with a local node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """What all containers of a run share."""

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


def container_of(
    run_context: RunContext, spec: NodeSpec, incarnation: int, image: str, command: Sequence[str]
) -> ContainerSpec:
    """The container for one life; the volumes it needs are made."""
    run_resources, name = run_context.run_resources, spec.name
    mark = f"{run_resources.run_directory}/{name}/{incarnation}"
    return ContainerSpec(
        name=run_resources.container(name, incarnation),
        image=image,
        command=(*ENTRY, *command),
        limits=run_context.limits,
        network=run_resources.network,
        aliases=(name,),
        environment={**spec.environment, **spec.secrets, NODE_MARK: mark},
        labels={**run_resources.labels, LABEL_NODE: name, "chaoslab.incarnation": str(incarnation)},
        volumes={
            run_resources.volume(name): NODE,
            run_resources.volume("shared"): SHARED,
            run_resources.cache(): CACHE,
            **run_context.mounts,
        },
        read_only=frozenset(run_context.mounts),
        hears=spec.hears,
    )
