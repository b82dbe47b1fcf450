"""Undo verbs, labels and names of what is made on an engine.

Apart from the rest so that reading an undo log does not need the Docker SDK.
"""

import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LABEL_RUN: Final = "chaoslab.run"
LABEL_HOST: Final = "chaoslab.host"
LABEL_DIRECTORY: Final = "chaoslab.directory"

EMPTY_RUN_RESOURCES: Final = "empty_run_resources"
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


def labels_of(run: str, directory: Path | str) -> Mapping[str, str]:
    """Labels of all that a run makes, by which it is found again."""
    return {
        LABEL_RUN: run,
        LABEL_HOST: socket.gethostname(),
        LABEL_DIRECTORY: str(directory),
    }


def trial_name() -> str:
    """Name, also as a run, of a container that tries something and is removed at once."""
    return f"chaoslab-trial-{secrets.token_hex(4)}"
