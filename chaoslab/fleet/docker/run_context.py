"""Context of a run, shared by its containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chaoslab.fleet.docker.engine.engine import Limits
from chaoslab.fleet.docker.run_resources import HOME, RunResources
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.nodes.arrivals import Arrivals

NODE: Final = f"{HOME}/node"
SHARED: Final = f"{HOME}/shared"
CACHE: Final = f"{HOME}/cache"
PRIVATE: Final = "/run/chaoslab"
"""Path of private files in a container: on its own file system, and gone with it."""
HEALTH: Final = "/tmp/health"  # noqa: S108 - of a container, where docker/Dockerfile looks for it
ENTRY: Final = ("/bin/sh", "-c", "trap '' USR1 USR2 HUP; exec \"$@\"", "node")
"""The hooks do nothing to a program until it takes them up, as with a local node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Images and limits of a run's containers."""

    image: str
    limits: Limits
    releases: Mapping[str, str] = field(default_factory=dict)
    """Other images to which a node may be upgraded, by their name in plans."""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Folders of this machine that nodes may read, and where they see them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Place):
    """Context that all containers of a run share."""

    run_resources: RunResources
    setup: Setup
    arrivals: Arrivals
    """Queue of the threads of containers."""
