"""The undo verbs and labels of what is done on an engine, for whoever reads an obligation.

Apart from the rest so that reading a record does not need the Docker SDK.
"""

from typing import Final

LABEL_RUN: Final = "chaoslab.run"
LABEL_HOST: Final = "chaoslab.host"
LABEL_DIRECTORY: Final = "chaoslab.directory"

EMPTY_ESTATE: Final = "empty_estate"
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
LETTING_GO: Final = (UNPAUSE, UNWEDGE, UNLIMIT, PLUG, FREE_VOLUME)
"""Those that give back what goes on living."""
SEEN: Final = (UNPAUSE, PLUG)
"""Those of them of which the engine says whether it is done."""
