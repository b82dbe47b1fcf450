"""Checkpoints of a learner on disk: written atomically beside training; the last two are kept.

    <directory>/00000012.checkpoint    checksum, {"step", "data_position", "fingerprint"}, payload

    save_later ─► writer (own thread) ─► file ─► checkpoint.saved, or checkpoint.failed
    load_newest ─► the newest intact one ──────► checkpoint.found, with those that were refused

They are numbered in the order of saving, because a learner that took over another's state may go
back to an earlier step. A full, slow or faulty disk costs checkpoints, never a step: training does
not wait here, and a file that does not match its checksum is not used.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaoslab.core.events import Json
from chaoslab.core.payloads import CheckpointFailed, CheckpointFound, CheckpointSaved, RefusedFile
from chaoslab.diloco.node.checksummed_file import CorruptState, read_checksummed, write_checksummed
from chaoslab.diloco.node.events import Emit, silent
from chaoslab.diloco.node.files import atomic_write, flush_folder, make_folder, remove

_log = logging.getLogger(__name__)
_BLINK_S = 0.05
"""Polling interval of a delayed write, in s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerCheckpoint:
    """A learner's newest intact checkpoint."""

    step: int
    data_position: int
    payload: bytes


class LearnerStore:
    """Keeps the last two checkpoints of a learner; can write them on a thread of its own.

    `fingerprint` identifies the model; checkpoints of another model are refused like damaged ones.
    `moments_digest` gives the digest of the moments in a payload, which `checkpoint.found` reports.
    Refusals are also logged if no file is usable.
    """

    _KEPT = 2

    def __init__(
        self,
        directory: Path,
        *,
        fingerprint: str = "",
        durable: bool = True,
        moments_digest: Callable[[bytes], str | None] = lambda _: None,
        emit: Emit = silent,
    ) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._durable = durable
        self._moments_digest = moments_digest
        self._emit = emit
        self._writer: threading.Thread | None = None
        self._refused: dict[Path, str] = {}
        """Refused files with the reason. They do not count towards the two that are kept."""
        self._bytes_per_s: float | None = None
        """Largest write rate, set by the test hook; None: no limit."""

    # ------------------------------------------------------------ saving

    def save_later(self, *, step: int, data_position: int, payload: Callable[[], bytes]) -> None:
        """Start writing a checkpoint, unless the one before is still being written.

        `payload` is called on the writer's thread. An error is reported and logged; the learner
        goes on with its older checkpoints.
        """
        if self._writer is not None and self._writer.is_alive():
            return

        def write() -> None:
            try:
                self.save(step=step, data_position=data_position, payload=payload())
            except OSError as error:
                _log.exception("the checkpoint at step %d could not be written", step)
                self._emit(CheckpointFailed, step=step, reason=str(error))

        self._writer = threading.Thread(target=write, name="checkpoint")
        self._writer.start()

    def save(self, *, step: int, data_position: int, payload: bytes) -> None:
        """Write a checkpoint atomically, then remove all but the last two. OSError if it fails."""
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
        self._emit(CheckpointSaved, file=path.name, step=step, bytes=len(payload), took_s=took_s)

    def _remove_old(self) -> None:
        """Keep the last two intact files; remove refused ones only when there are two."""
        found = self._newest_first()
        kept = [path for path in found if path not in self._refused][: self._KEPT]
        for path in found:
            if path not in kept and (path not in self._refused or len(kept) == self._KEPT):
                remove(path)

    # ------------------------------------------------------------ finding

    def load_newest(self) -> LearnerCheckpoint | None:
        """The newest intact checkpoint; None if there is none."""
        if self._durable and self._directory.is_dir():
            flush_folder(self._directory)  # so that a power cut cannot remove what is found
        found: LearnerCheckpoint | None = None
        file: str | None = None
        for path in self._newest_first():
            found = self._load(path)
            if found is not None:
                file = path.name
                break
        self._emit(
            CheckpointFound,
            file=file,
            step=found.step if found else None,
            moments=self._moments_digest(found.payload) if found else None,
            refused=tuple(
                RefusedFile(file=path.name, reason=why) for path, why in self._refused.items()
            ),
        )
        for reason in () if found else self._refused.values():
            _log.warning("refused checkpoint: %s", reason)
        return found

    def _load(self, path: Path) -> LearnerCheckpoint | None:
        """The checkpoint if intact and of this model; otherwise None, with the reason kept."""
        try:
            encoded, payload = read_checksummed(path)
        except CorruptState as error:
            self._refused[path] = str(error)
            return None
        head = json.loads(encoded)
        if head["fingerprint"] != self._fingerprint:
            self._refused[path] = f"{path}: belongs to another model"
            return None
        return LearnerCheckpoint(
            step=head["step"],
            data_position=head["data_position"],
            payload=bytes(payload),
        )

    def close(self) -> None:
        """Wait until a write that has begun is finished."""
        if self._writer is not None:
            self._writer.join()

    def _newest_first(self) -> Sequence[Path]:
        found = self._directory.glob("*.checkpoint")
        return sorted((path for path in found if path.stem.isdecimal()), reverse=True)

    # ------------------------------------------------------------ the test hook

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Test hook: write at most `bytes_per_s`, as a slow disk would; no limit without facts."""
        rate = facts.get("bytes_per_s")
        self._bytes_per_s = None if rate is None else float(str(rate))

    def _hold_up(self, size_bytes: int, began_s: float) -> None:
        """Delay the file until its bytes would be written at the rate of the test hook."""
        while (rate := self._bytes_per_s) and time.monotonic() < began_s + size_bytes / rate:
            time.sleep(_BLINK_S)
