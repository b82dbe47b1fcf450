"""Files of a script: its progress, where that is not in its output, and its checkpoints.

    Script.from ────────► a source for each worker ──┐
                                                     ├─ read ─► trainer.said
    Script.checkpoints ─► the files of each worker ──┘

Where all workers have one place, it is the first one's that runs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.events import Observation
from chaoslab.plan.model import Script
from chaoslab.trainers.reading import TrainerLine
from chaoslab.trainers.saved_files import SavedFiles
from chaoslab.trainers.script_progress import ScriptProgress
from chaoslab.trainers.sources import From, Source, source_of

_LOOK_S: Final = 0.2
"""How often files of checkpoints are looked for."""


class ScriptFiles:
    """The files of one run."""

    def __init__(
        self, script: Script, folder: Path, progress: ScriptProgress, clock: Clock
    ) -> None:
        """`folder` is that of the run; relative paths of `from` begin in the current directory."""
        self._progress, self._clock, self._look_s = progress, clock, 0.0
        self._sources: dict[str, Source] = {}
        self._saved: dict[str, SavedFiles] = {}
        ranks = range(script.workers)
        self.has_lines = True
        """Whether they are read by patterns."""
        if script.reads_files:
            settings = [script.source(rank, str(folder.absolute())) for rank in ranks]
            self.has_lines = settings[0].kind is From.FILE
            for name, rank in _different(script.names, [one.place for one in settings]).items():
                self._sources[name] = source_of(settings[rank], Path.cwd())
        if script.checkpoints_of(0):
            patterns = [script.checkpoints_of(rank) for rank in ranks]
            for name, rank in _different(script.names, patterns).items():
                self._saved[name] = SavedFiles(folder, patterns[rank])

    def close(self) -> None:
        """Close the files, and say which names of the plan they never had."""
        for source in self._sources.values():
            source.close()
        for absent in dict.fromkeys(one.absent for one in self._sources.values() if one.absent):
            logging.getLogger(__name__).warning("from: %s", absent)

    def nearest(self, worker: str) -> Sequence[str]:
        """What came nearest to its progress, if nothing in its file was any."""
        source = self._source(worker)
        return [source.nearest] if source and source.nearest else []

    def lacks(self, worker: str) -> str:
        """What of its file is not there yet."""
        source = self._source(worker)
        return source.lacks if source else ""

    def _source(self, worker: str) -> Source | None:
        return self._sources.get(worker, next(iter(self._sources.values()), None))

    def read(self) -> list[Observation]:
        """What is new. Of progress of a worker that does not run it is not known whose word it is:
        it is left out. Its checkpoints are there all the same.
        """
        sources = {name: source.read for name, source in self._sources.items()}
        found = _said(sources, self._progress.lives)
        if self._clock.now_s() >= self._look_s:
            self._look_s = self._clock.now_s() + _LOOK_S
            steps = self._progress.steps
            saved = {name: partial(one.read, steps[name]) for name, one in self._saved.items()}
            found += _said(saved, self._progress.incarnations)
        return found


def _said(
    readers: Mapping[str, Callable[[], list[TrainerLine]]], lives: Mapping[str, int]
) -> list[Observation]:
    found: list[Observation] = []
    for name, read in readers.items():
        said = read()
        speaker = name if len(readers) > 1 else next(iter(lives), name)
        if speaker in lives:
            found += [Observation.of(speaker, one.by(speaker, lives[speaker])) for one in said]
    return found


def _different(names: Sequence[str], places: Sequence[str]) -> Mapping[str, int]:
    """By worker, its rank: all of them, or the first one if they have one place."""
    ranks = range(len(names)) if len(set(places)) > 1 else (0,)
    return {names[rank]: rank for rank in ranks}
