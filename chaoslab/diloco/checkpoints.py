"""A learner's own checkpoints: written beside training, whole or not at all, the last two kept.

    <directory>/00000012.checkpoint    sealed: {"step", "data_position", "fingerprint"}, payload

They are numbered in the order in which they were saved, because a learner that took over another's
state may go back to an earlier step.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoslab.diloco.sealed import CorruptState, appearing_whole, read_sealed, write_sealed
from chaoslab.events import Json

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerCheckpoint:
    """A learner's own newest whole checkpoint."""

    step: int
    data_position: int
    payload: bytes
    skipped: tuple[str, ...]
    """Newer ones that were passed over, each with the reason."""


class LearnerStore:
    """Keeps the last two checkpoints that a learner saved; can write them on a thread of its own.

    `fingerprint` is that of the model; checkpoints of another model are passed over like damaged
    ones. What was passed over is also logged, since there may be nothing whole to return.
    """

    _KEPT = 2

    def __init__(self, directory: Path, *, fingerprint: str = "", durable: bool = True) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._durable = durable
        self._writer: threading.Thread | None = None

    def save_later(self, *, step: int, data_position: int, payload: Callable[[], bytes]) -> None:
        """Write a checkpoint soon; left out while the one before is still being written.

        `payload` is called on the writer's thread. A disk that refuses is logged: the learner goes
        on with its older checkpoints.
        """
        if self._writer is not None and self._writer.is_alive():
            return

        def write() -> None:
            try:
                self.save(step=step, data_position=data_position, payload=payload())
            except OSError:
                _log.exception("the checkpoint at step %d could not be written", step)

        self._writer = threading.Thread(target=write, name="checkpoint")
        self._writer.start()

    def save(self, *, step: int, data_position: int, payload: bytes) -> None:
        """Write a checkpoint whole, then remove all but the last two. OSError if it cannot."""
        self._directory.mkdir(parents=True, exist_ok=True)
        newest = self._newest_first()
        number = int(newest[0].stem) + 1 if newest else 1
        head: dict[str, Json] = {
            "step": step,
            "data_position": data_position,
            "fingerprint": self._fingerprint,
        }
        path = self._directory / f"{number:08d}.checkpoint"
        with appearing_whole(path, durable=self._durable) as partial:
            write_sealed(partial, head, [payload], durable=self._durable)
        for old in self._newest_first()[self._KEPT :]:
            old.unlink(missing_ok=True)

    def load_newest(self) -> LearnerCheckpoint | None:
        """The last whole checkpoint; None if there is none."""
        skipped: list[str] = []
        for path in self._newest_first():
            try:
                sealed = read_sealed(path)
            except CorruptState as error:
                skipped.append(str(error))
                continue
            head = json.loads(sealed.head)
            if head["fingerprint"] == self._fingerprint:
                return LearnerCheckpoint(
                    step=head["step"],
                    data_position=head["data_position"],
                    payload=bytes(sealed.body),
                    skipped=tuple(skipped),
                )
            skipped.append(f"{path} belongs to another model")
        for reason in skipped:
            _log.warning("no checkpoint to go on from: %s", reason)
        return None

    def close(self) -> None:
        """Wait until what was begun is written."""
        if self._writer is not None:
            self._writer.join()

    def _newest_first(self) -> Sequence[Path]:
        found = self._directory.glob("*.checkpoint")
        return sorted((path for path in found if path.stem.isdecimal()), reverse=True)
