"""Files of a node in a container: on a volume of the engine, reached by short-lived containers.

    damage, fill, free ─► a container of the node's image, with the volume and no network:
                          `disk` as a script ─► one line of JSON ─► what was measured
    a volume that can be full: in memory, kept by a container that does nothing else, since it is
    empty as soon as no container has it

Works wherever the engine is: the program travels on the command line. To give a volume another size
takes CAP_SYS_ADMIN, which only the container that does it has.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.docker.engine import labels as verbs
from chaoslab.fleet.docker.engine.engine import ContainerSpec, Engine, Limits
from chaoslab.fleet.docker.run_context import NODE, RunContext
from chaoslab.fleet.storage.disk import Space
from chaoslab.fleet.storage.files import FilesBeside, as_script, measured
from chaoslab.undo.base import PendingUndos

_HOLDER: Final = ("python3", "-I", "-S", "-c", "import signal; signal.pause()")
_LIMITS: Final = Limits(cpus=1.0, memory_bytes=256 << 20, processes=16)
_PATIENCE_S: Final = 60.0
"""Time limit of such a container; a busy machine takes seconds to start one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A volume, and what a container needs to work on it."""

    engine: Engine
    volume: str
    image: str
    """Image with Python, whose user owns the files."""
    labels: Mapping[str, str]


class VolumeFiles(FilesBeside):
    """Folder on its volume in which a node keeps its state; see `storage.files.Disk`."""

    def __init__(self, spec: NodeSpec, run_context: RunContext, *, is_tried: bool) -> None:
        """Nothing is made yet. `is_tried`: that this engine lets volumes be resized is known."""
        super().__init__(spec, NODE, lambda command: _run_beside(self._place(), command))
        self._is_tried, self._run_context = is_tried, run_context
        self._pending_undos = PendingUndos(run_context.undo_log)

    def give_volume(self) -> None:
        """Make one in memory. FleetError if the engine does not let its size be changed."""
        run_resources = self._run_context.run_resources
        name, place = run_resources.helper(self._node, "volume"), self._place(is_in_memory=True)
        run_resources.engine.create(_beside(place, name, _HOLDER))
        run_resources.engine.start(name)
        if self._is_tried:
            return
        try:
            resize(place, "free")
        except FleetError as error:
            raise FleetError(
                f"no volume of {self._node} can be full on the engine at "
                f"{run_resources.engine.url}: {error}; leave storage.disk_full out, or "
                "use --fleet local"
            ) from error

    def take_volume(self) -> None:
        self._pending_undos.close_all()

    def fill(self) -> Space:
        place = self._place()
        self._pending_undos.open(
            verbs.FREE_VOLUME,
            engine=place.engine.url, run=self._run_context.run_resources.run,
            volume=place.volume, image=place.image,
        )  # fmt: skip
        return resize(place, "fill")

    def free(self) -> Space:
        space = resize(self._place(), "free")
        self._pending_undos.close(verbs.FREE_VOLUME)
        return space

    def _place(self, *, is_in_memory: bool = False) -> Place:
        run_resources = self._run_context.run_resources
        return Place(
            engine=run_resources.engine,
            volume=run_resources.volume(self._node, is_in_memory=is_in_memory),
            image=self._run_context.setup.image,
            labels=run_resources.labels,
        )


def resize(place: Place, what: str) -> Space:
    """`fill` or `free` a volume that is in memory. FleetError if the kernel refuses."""
    said = _run_beside(place, as_script(what, NODE), may_resize=True)
    return Space(**measured(said, f"the volume {place.volume} cannot be resized"))


def _run_beside(place: Place, command: tuple[str, ...], *, may_resize: bool = False) -> str:
    """Output of a command in a container beside the node."""
    name = f"{place.volume}.{secrets.token_hex(3)}"
    return place.engine.run(_beside(place, name, command, may_resize=may_resize), _PATIENCE_S)


def _beside(
    place: Place, name: str, command: tuple[str, ...], *, may_resize: bool = False
) -> ContainerSpec:
    return ContainerSpec(
        name=name,
        image=place.image,
        command=command,
        limits=_LIMITS,
        network="none",
        labels=place.labels,
        volumes={place.volume: NODE},
        capabilities=("SYS_ADMIN",) if may_resize else (),
        user="0" if may_resize else None,
    )
