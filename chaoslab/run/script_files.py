"""Files of a script: its progress, where that is not in its output, and its checkpoints.

    Script.from ────────► a source for each worker ──┐
                                                     ├─ read ─► trainer.said
    Script.checkpoints ─► the files of each worker ──┘

Where all workers have one place, it is the first one's that runs.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from chaoslab.core.clock import Clock
from chaoslab.core.events import Observation
from chaoslab.plan.model import Script
from chaoslab.trainers.saved_files import SavedFiles
from chaoslab.trainers.script_progress import ScriptProgress
from chaoslab.trainers.sources import From
from chaoslab.trainers.worker_sources import WorkerSources, spoken

_LOOK_S: Final = 0.2
"""How often files of checkpoints are looked for."""


class ScriptFiles:
    """The files of one run."""

    def __init__(
        self, script: Script, folder: Path, progress: ScriptProgress, clock: Clock
    ) -> None:
        """`folder` is that of the run; relative paths of `from` begin in the current directory."""
        self._progress, self._clock, self._look_s = progress, clock, 0.0
        settings = script.sources(str(folder.absolute()))
        self._sources = WorkerSources(settings, lambda _: Path.cwd())
        self.has_lines = all(one.kind is From.FILE for one in settings.values())
        """Whether they are read by patterns."""
        ranks = script.apart(script.checkpoints_of) if script.checkpoints_of(0) else ()
        self._saved = {
            script.names[rank]: SavedFiles(folder, script.checkpoints_of(rank)) for rank in ranks
        }

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
        """What is new. Checkpoints of a worker are there also while it does not run."""
        found = self._sources.read(self._progress.lives)
        if self._clock.now_s() >= self._look_s:
            self._look_s = self._clock.now_s() + _LOOK_S
            steps = self._progress.steps
            saved = {name: partial(one.read, steps[name]) for name, one in self._saved.items()}
            found += spoken(saved, self._progress.incarnations)
        return found
