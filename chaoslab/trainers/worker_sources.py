"""Files of workers: where their progress is read, if not in their output, and their checkpoints.

    SourceSettings of each worker ─► WorkerSources ─ read ──► trainer.said, of those that run
    the pattern of checkpoints ────┘               └ saved ─► trainer.said: what is complete

Where all workers have one place, it is the first one's that runs.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from chaoslab.core.events import Observation
from chaoslab.trainers.reading import TrainerLine
from chaoslab.trainers.saved_files import SavedFiles
from chaoslab.trainers.sources import From, Source, SourceSettings, source_of

_LOOK_S: Final = 0.2
"""How often files of checkpoints are looked for."""


class WorkerSources:
    """The files of one training."""

    def __init__(
        self,
        settings: Mapping[str, SourceSettings],
        home: Callable[[str], Path],
        saves: Mapping[str, str] = MappingProxyType({}),
        folder: Path = Path(),
    ) -> None:
        """`settings`: by worker. `home`: where relative paths of a worker begin. `saves`: patterns
        of checkpoints in `folder`, by worker.
        """
        self._sources = {name: source_of(one, home(name)) for name, one in settings.items()}
        self.has_lines = all(one.kind is From.FILE for one in settings.values())
        """Whether progress is read by patterns."""
        self._saved = {name: SavedFiles(folder, pattern) for name, pattern in saves.items()}
        self._look_s = 0.0

    def read(self, lives: Mapping[str, int]) -> list[Observation]:
        """What is new. `lives`: the incarnation of each worker that runs: of progress of another
        it is not known whose word it is, so it is left out.
        """
        return _spoken({name: source.read for name, source in self._sources.items()}, lives)

    def saved(
        self, lives: Mapping[str, int], steps: Callable[[str], int], now_s: float
    ) -> list[Observation]:
        """New checkpoints, looked for now and then, also of workers that do not run. `steps`: what
        a worker has reported last.
        """
        if now_s < self._look_s:
            return []
        self._look_s = now_s + _LOOK_S
        readers = {name: partial(one.read, steps(name)) for name, one in self._saved.items()}
        return _spoken(readers, lives)

    def of(self, worker: str) -> Source | None:
        """Its own source, or that of all."""
        return self._sources.get(worker, next(iter(self._sources.values()), None))

    def close(self) -> None:
        """Close the files, and say which names of the plan they never had."""
        for source in self._sources.values():
            source.close()
        for absent in dict.fromkeys(one.absent for one in self._sources.values() if one.absent):
            logging.getLogger(__name__).warning("from: %s", absent)


def _spoken(
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
