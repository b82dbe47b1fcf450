"""Progress of a script that is read in files, or on a page of metrics, not in its output.

    Script.from ─► a source for each worker ─► read ─► trainer.said, before what the fleet reports

Where all workers have one place, it is the first one's that runs.
"""

from pathlib import Path

from chaoslab.core.events import Observation
from chaoslab.plan.model import Script
from chaoslab.trainers.sources import Source, source_of
from chaoslab.trainers.whole import Whole


class ScriptFiles:
    """The sources of one run."""

    def __init__(self, script: Script, folder: Path, whole: Whole) -> None:
        """`folder` is that of the run; relative paths begin in the current directory."""
        self._whole = whole
        self._sources: dict[str, Source] = {}
        settings = [script.source(rank, str(folder.absolute())) for rank in range(script.workers)]
        for name, one in zip(script.names, settings, strict=True):
            if one.place != settings[0].place or not self._sources:
                self._sources[name] = source_of(one, Path.cwd())

    def close(self) -> None:
        """Close the files."""
        for source in self._sources.values():
            source.close()

    def read(self) -> list[Observation]:
        """What is new. Of a worker that does not run nobody knows whose word it is: left out."""
        lives = self._whole.lives
        found: list[Observation] = []
        for name, source in self._sources.items():
            said = source.read()
            speaker = name if len(self._sources) > 1 else next(iter(lives), name)
            if speaker in lives:
                found += [Observation.of(speaker, one.by(speaker, lives[speaker])) for one in said]
        return found
