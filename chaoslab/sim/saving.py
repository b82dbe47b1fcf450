"""Checkpoints of a simulated learner: saved beside training, found at every start.

    save_if_due ─► being written, for as long as the disk takes ─► checkpoint.saved
                       └─ a newer one waits; a full disk: checkpoint.failed
    find ─► the newest whole one, and those that are refused ─► checkpoint.found

As `diloco.learner.checkpoints` does on a thread of its own.
"""

from collections.abc import Mapping

from chaoslab.core.events import Json
from chaoslab.core.payloads import (
    CheckpointFailed,
    CheckpointFound,
    CheckpointSaved,
    RefusedFile,
)
from chaoslab.sim.counters import Counters
from chaoslab.sim.disk import CheckpointFile
from chaoslab.sim.model import PARAMETERS
from chaoslab.sim.process import Act, Process, need

_FULL = "No space left on device"


class Saving:
    """Checkpoints of one life."""

    def __init__(self, learner: Process, *, every_s: float) -> None:
        self._learner, self._every_s = learner, every_s
        self._disk = learner.world.disk(learner.name)
        self._size_bytes = int(
            learner.world.costs.checkpoint_bytes * PARAMETERS[need(learner.flags, "model")]
        )
        self._rate: float | None = None
        self._saved_s = 0.0
        self._is_busy = False
        self._next: tuple[int, int] | None = None
        """Step and data position of a checkpoint that waits for the one before it."""
        self._then: Act | None = None

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Write no faster than this many bytes per second; without facts, as fast as the disk."""
        rate = facts.get("bytes_per_s")
        self._rate = float(rate) if isinstance(rate, int | float) else None

    def find(self) -> CheckpointFile | None:
        """The newest whole checkpoint of an earlier life; reported at every start."""
        refused: list[RefusedFile] = []
        found: CheckpointFile | None = None
        for file in reversed(self._disk.files):
            if not file.damage:
                found = file
                break
            refused.append(RefusedFile(file=file.name, reason=file.damage))
        self._learner.tell_of_itself(
            CheckpointFound,
            file=found.name if found else None,
            step=found.step if found else None,
            refused=tuple(refused),
        )
        return found

    def begin(self) -> None:
        """Training begins."""
        self._saved_s = self._learner.now_s

    def save_if_due(self, counters: Counters) -> None:
        """Pass a checkpoint to the disk when it is time."""
        if self._learner.clock.time_s - self._saved_s >= self._every_s:
            self._saved_s = self._learner.now_s
            self._save(counters.step, counters.data_position)

    def save_last(self, counters: Counters, then: Act) -> None:
        """Save once more, after the one that is being written, and then go on."""
        self._then = then
        self._save(counters.step, counters.data_position)

    def _save(self, step: int, data_position: int) -> None:
        if self._is_busy:
            self._next = (step, data_position)
            return
        if self._disk.is_full:
            self._learner.tell_of_itself(CheckpointFailed, step=step, reason=_FULL)
            self._finish()
            return
        self._is_busy = True
        took_s = self._learner.world.costs.save_s
        if self._rate is not None:
            took_s = max(took_s, self._size_bytes / self._rate)
        self._learner.later(took_s, lambda: self._saved(step, data_position, took_s))

    def _saved(self, step: int, data_position: int, took_s: float) -> None:
        self._is_busy = False
        if self._disk.is_full:
            self._learner.tell_of_itself(CheckpointFailed, step=step, reason=_FULL)
        else:
            file = self._disk.save(
                step=step, data_position=data_position, size_bytes=self._size_bytes
            )
            self._learner.tell_of_itself(
                CheckpointSaved, file=file.name, step=step, bytes=file.size_bytes, took_s=took_s
            )
        self._finish()

    def _finish(self) -> None:
        if self._next is not None:
            waiting, self._next = self._next, None
            self._save(*waiting)
        elif self._then is not None:
            then, self._then = self._then, None
            then()
