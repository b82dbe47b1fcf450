"""Files of a script on this machine, by what the run knows of its workers.

Script.from ────────► a source for each worker ──┐
                                                 ├─ read ─► trainer.said
Script.checkpoints ─► the files of each worker ──┘
"""

from collections.abc import Sequence
from pathlib import Path

from chaoslab.core.clock import Clock
from chaoslab.core.events import Observation
from chaoslab.plan.model import Script
from chaoslab.trainers.script_progress import ScriptProgress
from chaoslab.trainers.worker_sources import WorkerSources


class ScriptFiles:
    """The files of one run."""

    def __init__(
        self, script: Script, folder: Path, progress: ScriptProgress, clock: Clock
    ) -> None:
        """`folder` is that of the run; relative paths of `from` begin in the current directory."""
        self._progress, self._clock = progress, clock
        self._sources = WorkerSources(
            script.sources(str(folder.absolute())), lambda _: Path.cwd(), script.saves, folder
        )
        self.has_lines = self._sources.has_lines

    def close(self) -> None:
        """Close the files, and say which names of the plan they never had."""
        self._sources.close()

    def nearest(self, worker: str) -> Sequence[str]:
        """What came nearest to its progress, if nothing in its file was any."""
        source = self._sources.of(worker)
        return [source.nearest] if source and source.nearest else []

    def lacks(self, worker: str) -> str:
        """What of its file is not there yet."""
        source = self._sources.of(worker)
        return source.lacks if source else ""

    def read(self) -> list[Observation]:
        """What is new."""
        seen = self._progress
        saved = self._sources.saved(seen.incarnations, seen.steps.__getitem__, self._clock.now_s())
        return [*self._sources.read(seen.lives), *saved]
