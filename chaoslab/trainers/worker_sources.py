"""Sources of the workers' progress, where that is not in their output: one for each, or for all.

    SourceSettings of each worker ─► WorkerSources ─ read ─► trainer.said, of those that run

Where all workers have one place, it is the first one's that runs.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from chaoslab.core.events import Observation
from chaoslab.trainers.reading import TrainerLine
from chaoslab.trainers.sources import Source, SourceSettings, source_of


class WorkerSources:
    """The sources of one training."""

    def __init__(
        self, settings: Mapping[str, SourceSettings], folder: Callable[[str], Path]
    ) -> None:
        """`settings`: by worker. `folder`: where relative paths of a worker begin."""
        self._sources = {name: source_of(one, folder(name)) for name, one in settings.items()}

    def read(self, lives: Mapping[str, int]) -> list[Observation]:
        """What is new. `lives`: the incarnation of each worker that runs: of progress of another
        it is not known whose word it is, so it is left out.
        """
        return spoken({name: source.read for name, source in self._sources.items()}, lives)

    def of(self, worker: str) -> Source | None:
        """Its own source, or that of all."""
        return self._sources.get(worker, next(iter(self._sources.values()), None))

    def close(self) -> None:
        """Close the files, and say which names of the plan they never had."""
        for source in self._sources.values():
            source.close()
        for absent in dict.fromkeys(one.absent for one in self._sources.values() if one.absent):
            logging.getLogger(__name__).warning("from: %s", absent)


def spoken(
    readers: Mapping[str, Callable[[], list[TrainerLine]]], lives: Mapping[str, int]
) -> list[Observation]:
    """What readers of workers find, as their word; a reader for all speaks for the first one."""
    found: list[Observation] = []
    for name, read in readers.items():
        said = read()
        speaker = name if len(readers) > 1 else next(iter(lives), name)
        if speaker in lives:
            found += [Observation.of(speaker, one.by(speaker, lives[speaker])) for one in said]
    return found
