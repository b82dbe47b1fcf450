"""Resources of one run on an engine: its network and its volumes, and the names of all it makes.

    run directory ─► RunResources: chaoslab-3fa9c2e1b0               network
                                   chaoslab-3fa9c2e1b0-learner-0     volume: what this node keeps
                                   chaoslab-3fa9c2e1b0-shared        volume: snapshots to evaluate
                                   chaoslab-3fa9c2e1b0-learner-0.2   container: second incarnation
                     chaoslab-cache   volume: compiled steps, kept for all runs

All of it carries labels, by which it is found again: which run, which node, whose machine and
directory. One entry of the undo log, written down before the first of it is made, removes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaoslab.core.errors import FleetError
from chaoslab.fleet.docker.engine.connection import APIError
from chaoslab.fleet.docker.engine.engine import Engine
from chaoslab.fleet.docker.engine.labels import (
    EMPTY_RUN_RESOURCES,
    LABEL_RUN,
    labels_of,
)
from chaoslab.fleet.run_name import own_name, run_name
from chaoslab.undo.base import UndoLog

LABEL_NODE: Final = "chaoslab.node"
CACHE: Final = "chaoslab-cache"
"""Volume that outlives its run: the next one uses it, too."""
HOME: Final = "/var/lib/chaoslab"
"""Where containers see volumes; the image has these folders, and its user owns them."""


@dataclass(slots=True, kw_only=True)
class RunResources:
    """Resources of one run on one engine."""

    engine: Engine
    run_directory: Path
    undo_log: UndoLog
    run: str = ""
    """Name of the run in labels and names; the same for the same directory on the same machine."""
    _volumes: set[str] = field(default_factory=set)
    _entry: int | None = None

    def __post_init__(self) -> None:
        self.run = run_name(self.run_directory)

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of everything that is made."""
        return labels_of(self.run, self.run_directory)

    @property
    def own(self) -> Mapping[str, str]:
        """Labels by which all of it is found."""
        return {LABEL_RUN: self.run}

    @property
    def network(self) -> str:
        """Name of the run's network."""
        return own_name(self.run)

    def container(self, node: str, incarnation: int) -> str:
        """Name of the container of one incarnation."""
        return f"{self.network}-{node}.{incarnation}"

    def helper(self, node: str, what: str) -> str:
        """Name of a container beside a node, by what it does there."""
        return f"{self.network}-{node}.{what}"

    def open(self) -> None:
        """Write down how to empty it, then make the network. FleetError if the engine refuses."""
        if self._entry is None:
            self._entry = self.undo_log.open(
                EMPTY_RUN_RESOURCES, engine=self.engine.url, run=self.run
            )
            self.engine.create_network(self.network, self.labels)

    def volume(self, name: str, *, is_in_memory: bool = False) -> str:
        """A volume of the run, made when it is first asked for; its full name."""
        full = f"{self.network}-{name}"
        if full not in self._volumes:
            self.engine.create_volume(full, self.labels, is_in_memory=is_in_memory)
            self._volumes.add(full)
        return full

    def cache(self) -> str:
        """The volume of compiled steps, which no run removes."""
        if CACHE not in self._volumes:
            self.engine.create_volume(CACHE, {})
            self._volumes.add(CACHE)
        return CACHE

    def close(self) -> None:
        """Leave nothing; FleetError names what could not be removed."""
        if self._entry is None:
            return
        empty(self.engine, self.run)
        if left := remains(self.engine, self.run):
            raise FleetError(f"on the engine at {self.engine.url} there still are {left}")
        self.undo_log.close(self._entry)
        self._entry = None


def empty(engine: Engine, run: str) -> tuple[str, ...]:
    """Remove all of a run; what was removed. FleetError names what the engine keeps."""
    own = {LABEL_RUN: run}
    done: list[str] = []
    refused: list[str] = []
    for kind, found, remove in (
        ("container", lambda: engine.names(own), engine.remove),
        ("network", lambda: engine.networks(own), engine.remove_network),
        ("volume", lambda: _volumes(engine, run), engine.remove_volume),
    ):
        for name in found():
            try:
                done += [f"{kind} {name}"] * remove(name)
            except FleetError as error:
                if not isinstance(error.__cause__, APIError):
                    raise  # the engine does not answer any more
                refused.append(str(error))
    if refused:
        raise FleetError("; ".join(refused))
    return tuple(done)


def remains(engine: Engine, run: str) -> tuple[str, ...]:
    """Existing resources of a run."""
    own = {LABEL_RUN: run}
    return (
        *(f"container {name}" for name in engine.names(own)),
        *(f"network {name}" for name in engine.networks(own)),
        *(f"volume {name}" for name in _volumes(engine, run)),
    )


def _volumes(engine: Engine, run: str) -> frozenset[str]:
    """Volumes by label and by name: an engine that finds one gone makes another without labels."""
    own = engine.volumes({LABEL_RUN: run})
    return frozenset(own) | {
        name for name in engine.volumes({}) if name.startswith(f"{own_name(run)}-")
    }
