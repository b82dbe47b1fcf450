"""Checkpoints of a learner on disk: written atomically beside training; the last two are kept.

    <directory>/00000012.checkpoint    checksum, {"step", "data_position", "fingerprint"}, payload

    save_later ─► writer (beside training) ─► file ─► checkpoint.saved, or checkpoint.failed
    load_newest ─► the newest intact one ───────────► checkpoint.found, with those that were refused

They are numbered in the order of saving, because a learner that took over another's state may go
back to an earlier step. A full, slow or faulty disk costs checkpoints, never a step: training does
not wait here, and a file that does not match its checksum is not used.

`Checkpoints` decides; `LearnerStore` has the files and the thread, and a simulation others.
"""

import json
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaoslab.core.events import Json
from chaoslab.core.payloads import (
    CheckpointFailed,
    CheckpointFound,
    CheckpointSaved,
    LifeFields,
    RefusedFile,
)
from chaoslab.diloco.node.checksummed_file import CorruptState, read_checksummed, write_checksummed
from chaoslab.diloco.node.events import Emit, silent
from chaoslab.diloco.node.files import atomic_write, flush_folder, make_folder, remove
from chaoslab.diloco.node.waits import run_now, sleep

_log = logging.getLogger(__name__)
_BLINK_S = 0.05
"""Polling interval of a delayed write, in s."""
_KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerCheckpoint:
    """A learner's newest intact checkpoint."""

    step: int
    data_position: int
    payload: bytes


class Checkpoints(ABC):
    """Which checkpoints of a learner are written, kept, found and refused; each by its name."""

    def __init__(
        self,
        whose: LifeFields,
        *,
        moments_digest: Callable[[bytes], str | None],
        emit: Emit,
        warn: Callable[[str], None],
    ) -> None:
        """`moments_digest` gives the digest of the moments in a payload, for `checkpoint.found`.

        `warn` gets what a person should know of a failure.
        """
        self._moments_digest = moments_digest
        self._whose, self._emit = whose, emit
        self._warn = warn
        self._refused: dict[str, str] = {}
        """Refused files with the reason. They do not count towards the two that are kept."""
        self._bytes_per_s: float | None = None
        """Largest write rate, set by the test hook; None: no limit."""

    # ------------------------------------------------------------ files, and what runs beside

    @abstractmethod
    def _newest_first(self) -> Sequence[str]:
        """Names of all that are there; each is its number, with eight digits."""

    @abstractmethod
    def _read(self, name: str) -> LearnerCheckpoint:
        """CorruptState says why it is refused."""

    @abstractmethod
    async def _write(self, name: str, checkpoint: LearnerCheckpoint) -> None:
        """Write atomically, and await `_hold_up` before it is there. OSError."""

    @abstractmethod
    def _remove(self, name: str) -> None:
        """Remove one."""

    @property
    @abstractmethod
    def _is_writing(self) -> bool:
        """Whether one is being written beside training."""

    @abstractmethod
    def _beside(self, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this beside training."""

    @abstractmethod
    async def close(self) -> None:
        """Wait until a write that has begun is finished."""

    @abstractmethod
    def _now_s(self) -> float:
        """Time of some clock."""

    @abstractmethod
    async def _sleep(self, seconds: float) -> None:
        """Wait."""

    # ------------------------------------------------------------ saving

    def save_later(self, *, step: int, data_position: int, payload: Callable[[], bytes]) -> None:
        """Start writing a checkpoint, unless the one before is still being written.

        `payload` is called beside training. An error is reported, and the learner goes on with its
        older checkpoints.
        """
        if self._is_writing:
            return

        async def write() -> None:
            try:
                await self.save(step=step, data_position=data_position, payload=payload())
            except OSError as error:
                self._warn(f"the checkpoint at step {step} could not be written: {error}")
                self._emit(CheckpointFailed(**self._whose, step=step, reason=str(error)))

        self._beside(write)

    async def save(self, *, step: int, data_position: int, payload: bytes) -> None:
        """Write a checkpoint atomically, then remove all but the last two. OSError if it fails."""
        began_s = self._now_s()
        newest = self._newest_first()
        number = int(Path(newest[0]).stem) + 1 if newest else 1
        name = f"{number:08d}.checkpoint"
        await self._write(
            name, LearnerCheckpoint(step=step, data_position=data_position, payload=payload)
        )
        self._remove_old()
        saved = CheckpointSaved(
            **self._whose,
            file=name,
            step=step,
            bytes=len(payload),
            took_s=self._now_s() - began_s,
        )
        self._emit(saved)

    def _remove_old(self) -> None:
        """Keep the last two intact files; remove refused ones only when there are two."""
        found = self._newest_first()
        kept = [name for name in found if name not in self._refused][:_KEPT]
        for name in found:
            if name not in kept and (name not in self._refused or len(kept) == _KEPT):
                self._remove(name)

    # ------------------------------------------------------------ finding

    def load_newest(self) -> LearnerCheckpoint | None:
        """The newest intact checkpoint; None if there is none."""
        found: LearnerCheckpoint | None = None
        file: str | None = None
        for name in self._newest_first():
            try:
                found, file = self._read(name), name
                break
            except CorruptState as error:
                self._refused[name] = str(error)
        self._emit(
            CheckpointFound(
                **self._whose,
                file=file,
                step=found.step if found else None,
                moments=self._moments_digest(found.payload) if found else None,
                refused=tuple(
                    RefusedFile(file=name, reason=why) for name, why in self._refused.items()
                ),
            )
        )
        for reason in () if found else self._refused.values():
            self._warn(f"refused checkpoint: {reason}")
        return found

    # ------------------------------------------------------------ the test hook

    def apply_hook(self, facts: Mapping[str, Json]) -> None:
        """Test hook: write at most `bytes_per_s`, as a slow disk would; no limit without facts."""
        rate = facts.get("bytes_per_s")
        self._bytes_per_s = None if rate is None else float(str(rate))

    async def _hold_up(self, size_bytes: int, began_s: float) -> None:
        """Delay the file until its bytes would be written at the rate of the test hook."""
        while (rate := self._bytes_per_s) and self._now_s() < began_s + size_bytes / rate:
            await self._sleep(_BLINK_S)


class LearnerStore(Checkpoints):
    """Checkpoints in a directory, which are written on a thread of their own.

    `fingerprint` identifies the model; checkpoints of another model are refused like damaged ones.
    Refusals are also logged if no file is usable.
    """

    def __init__(
        self,
        directory: Path,
        whose: LifeFields,
        *,
        fingerprint: str = "",
        durable: bool = True,
        moments_digest: Callable[[bytes], str | None] = lambda _: None,
        emit: Emit = silent,
    ) -> None:
        super().__init__(whose, moments_digest=moments_digest, emit=emit, warn=_log.warning)
        self._directory = directory
        self._fingerprint = fingerprint
        self._durable = durable
        self._writer: threading.Thread | None = None

    def load_newest(self) -> LearnerCheckpoint | None:
        """See `Checkpoints.load_newest`."""
        if self._durable and self._directory.is_dir():
            flush_folder(self._directory)  # so that a power cut cannot remove what is found
        return super().load_newest()

    async def close(self) -> None:
        """See `Checkpoints.close`."""
        if self._writer is not None:
            self._writer.join()

    # ------------------------------------------------------------ inside

    def _newest_first(self) -> Sequence[str]:
        found = self._directory.glob("*.checkpoint")
        return sorted((path.name for path in found if path.stem.isdecimal()), reverse=True)

    def _read(self, name: str) -> LearnerCheckpoint:
        path = self._directory / name
        encoded, payload = read_checksummed(path)
        head = json.loads(encoded)
        if head["fingerprint"] != self._fingerprint:
            raise CorruptState(f"{path}: belongs to another model")
        return LearnerCheckpoint(
            step=head["step"], data_position=head["data_position"], payload=bytes(payload)
        )

    async def _write(self, name: str, checkpoint: LearnerCheckpoint) -> None:
        began_s = self._now_s()
        make_folder(self._directory, durable=self._durable)
        head: dict[str, Json] = {
            "step": checkpoint.step,
            "data_position": checkpoint.data_position,
            "fingerprint": self._fingerprint,
        }
        with atomic_write(self._directory / name, durable=self._durable) as file:
            write_checksummed(file, head, [checkpoint.payload])
            await self._hold_up(len(checkpoint.payload), began_s)

    def _remove(self, name: str) -> None:
        remove(self._directory / name)

    @property
    def _is_writing(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    def _beside(self, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._writer = threading.Thread(target=lambda: run_now(code()), name="checkpoint")
        self._writer.start()

    def _now_s(self) -> float:
        return time.monotonic()

    async def _sleep(self, seconds: float) -> None:
        await sleep(seconds)
