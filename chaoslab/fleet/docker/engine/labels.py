"""The undo verbs and labels of what is done on an engine, for whoever reads an obligation.

Apart from the rest so that reading a record does not need the Docker SDK.
"""

import hashlib
import socket
from pathlib import Path
from typing import Final

LABEL_RUN: Final = "chaoslab.run"
LABEL_HOST: Final = "chaoslab.host"
LABEL_DIRECTORY: Final = "chaoslab.directory"

EMPTY_RUN_RESOURCES: Final = "empty_estate"
"""engine, run: remove the containers, network and volumes of a run."""
UNPAUSE: Final = "unpause_container"
"""engine, container."""
UNWEDGE: Final = "unwedge_container"
"""engine, container."""
UNLIMIT: Final = "unlimit_container"
"""engine, container, cpus, memory_bytes, processes: what it had before."""
PLUG: Final = "plug_container"
"""engine, container, network, aliases, address: as it was connected before."""
FREE_VOLUME: Final = "free_container_volume"
"""engine, run, volume, image: give a volume that is full room again."""
SEEN: Final = (UNPAUSE, PLUG)
"""Those that let go of which the engine says whether it is done."""
_DIGITS: Final = 10


def run_name(run_directory: Path) -> str:
    """A few hex digits that no other run shares, on this machine or another."""
    whose = f"{socket.gethostname()}:{run_directory.absolute()}"
    return hashlib.sha256(whose.encode()).hexdigest()[:_DIGITS]


def own_name(run: str) -> str:
    """How the names of all that is a run's begin, and that of its network."""
    return f"chaoslab-{run}"
