"""A learner's own checkpoints: written beside training, whole or not at all, the last two kept.

    <directory>/00000012.checkpoint    sealed: {"step", "data_position", "fingerprint"}, payload

    save_later ─► writer (own thread) ─► file ─► checkpoint.saved, or checkpoint.failed
    load_newest ─► the newest whole one ───────► checkpoint.found, with those that were passed over

They are numbered in the order in which they were saved, because a learner that took over another's
state may go back to an earlier step. A disk that is full, slow or damaged costs checkpoints, never
a step: training does not wait here, and what does not fit its seal is not believed.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.node.checksummed_file import CorruptState, read_checksummed, write_checksummed
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.node.files import atomic_write, flush_folder, make_folder, remove

_log = logging.getLogger(__name__)
_BLINK_S = 0.05
"""How often a write that is held up looks whether it still is."""


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

    def __init__(
        self,
        directory: Path,
        *,
        fingerprint: str = "",
        durable: bool = True,
        emit: Emit = lambda _kind, _data: None,
    ) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._durable = durable
        self._emit = emit
        self._writer: threading.Thread | None = None
        self._refused: dict[Path, str] = {}
        """Files that were passed over, and why. They are no reason to remove an older whole one."""
        self._bytes_per_s: float | None = None
        """No faster than this, while the test hook asks for it."""

    # ------------------------------------------------------------ saving

    def save_later(self, *, step: int, data_position: int, payload: Callable[[], bytes]) -> None:
        """Write a checkpoint soon; left out while the one before is still being written.

        `payload` is called on the writer's thread. A disk that refuses is told and logged: the
        learner goes on with its older checkpoints.
        """
        if self._writer is not None and self._writer.is_alive():
            return

        def write() -> None:
            try:
                self.save(step=step, data_position=data_position, payload=payload())
            except OSError as error:
                _log.exception("the checkpoint at step %d could not be written", step)
                self._emit(Kind.CHECKPOINT_FAILED, {"step": step, "reason": str(error)})

        self._writer = threading.Thread(target=write, name="checkpoint")
        self._writer.start()

    def save(self, *, step: int, data_position: int, payload: bytes) -> None:
        """Write a checkpoint whole, then remove all but the last two. OSError if it cannot."""
        began_s = time.monotonic()
        make_folder(self._directory, durable=self._durable)
        newest = self._newest_first()
        number = int(newest[0].stem) + 1 if newest else 1
        head: dict[str, Json] = {
            "step": step,
            "data_position": data_position,
            "fingerprint": self._fingerprint,
        }
        path = self._directory / f"{number:08d}.checkpoint"
        with atomic_write(path, durable=self._durable) as file:
            write_checksummed(file, head, [payload])
            self._hold_up(len(payload), began_s)
        self._remove_old()
        took_s = time.monotonic() - began_s
        told: dict[str, Json] = {"file": path.name, "bytes": len(payload), "took_s": took_s}
        self._emit(Kind.CHECKPOINT_SAVED, {"step": step, **told})

    def _remove_old(self) -> None:
        """All but the last two that are whole; those that are not go when there are two."""
        found = self._newest_first()
        kept = [path for path in found if path not in self._refused][: self._KEPT]
        for path in found:
            if path not in kept and (path not in self._refused or len(kept) == self._KEPT):
                remove(path)

    # ------------------------------------------------------------ finding

    def load_newest(self) -> LearnerCheckpoint | None:
        """The last whole checkpoint; None if there is none."""
        if self._durable and self._directory.is_dir():
            flush_folder(self._directory)  # what is gone by is not lost any more
        found: LearnerCheckpoint | None = None
        file: str | None = None
        for path in self._newest_first():
            found = self._load(path)
            if found is not None:
                file = path.name
                break
        self._emit(
            Kind.CHECKPOINT_FOUND,
            {
                "file": file,
                "step": found.step if found else None,
                "refused": [
                    {"file": path.name, "reason": why} for path, why in self._refused.items()
                ],
            },
        )
        for reason in () if found else self._refused.values():
            _log.warning("no checkpoint to go on from: %s", reason)
        return found

    def _load(self, path: Path) -> LearnerCheckpoint | None:
        """One that is whole and of this model; None, and why, otherwise."""
        try:
            sealed = read_checksummed(path)
        except CorruptState as error:
            self._refused[path] = str(error)
            return None
        head = json.loads(sealed.head)
        if head["fingerprint"] != self._fingerprint:
            self._refused[path] = f"{path} belongs to another model"
            return None
        return LearnerCheckpoint(
            step=head["step"],
            data_position=head["data_position"],
            payload=bytes(sealed.body),
            skipped=tuple(self._refused.values()),
        )

    def close(self) -> None:
        """Wait until what was begun is written."""
        if self._writer is not None:
            self._writer.join()

    def _newest_first(self) -> Sequence[Path]:
        found = self._directory.glob("*.checkpoint")
        return sorted((path for path in found if path.stem.isdecimal()), reverse=True)

    # ------------------------------------------------------------ the test hook

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Write no faster than `bytes_per_s`, as a worn-out disk would; without facts, as ever."""
        rate = facts.get("bytes_per_s")
        self._bytes_per_s = None if rate is None else float(str(rate))

    def _hold_up(self, size_bytes: int, began_s: float) -> None:
        """A file does not appear before its bytes are through, at the rate that is asked."""
        while (rate := self._bytes_per_s) and time.monotonic() < began_s + size_bytes / rate:
            time.sleep(_BLINK_S)
