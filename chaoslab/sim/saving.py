"""Checkpoints of a simulated learner: the rules of `diloco.learner.checkpoints`, on its disk."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from chaoslab.diloco.learner.checkpoints import Checkpoints, LearnerCheckpoint
from chaoslab.diloco.node.checksummed_file import CorruptState
from chaoslab.sim.disk import CheckpointFile
from chaoslab.sim.process import Act, Process
from chaoslab.sim.waits import Until, drive, sleep


class Saving(Checkpoints):
    """Checkpoints of one life."""

    def __init__(self, learner: Process, *, moments_digest: Callable[[bytes], str]) -> None:
        super().__init__(
            learner.whose, moments_digest=moments_digest, emit=learner.say, warn=lambda _: None
        )
        self._learner = learner
        self._disk = learner.world.disk(learner.name)
        self._busy = False
        self._when_done: Act | None = None

    async def close(self) -> None:
        """See `Checkpoints.close`."""
        if self._busy:
            await Until(self._await_end)

    # ---------------------------------------------------------------- inside

    def _await_end(self, go: Act) -> None:
        self._when_done = go

    def _newest_first(self) -> Sequence[str]:
        return sorted(self._disk.files, reverse=True)

    def _read(self, name: str) -> LearnerCheckpoint:
        file = self._disk.files[name]
        if file.damage:
            raise CorruptState(file.damage)
        return LearnerCheckpoint(
            step=file.step, data_position=file.data_position, payload=file.payload
        )

    async def _write(self, name: str, checkpoint: LearnerCheckpoint) -> None:
        began_s, size_bytes = self._now_s(), len(checkpoint.payload)
        self._disk.refuse_if_full()
        await self._sleep(self._learner.world.costs.save_s)
        await self._hold_up(size_bytes, began_s)
        self._disk.refuse_if_full()
        self._disk.files[name] = CheckpointFile(
            name=name,
            step=checkpoint.step,
            data_position=checkpoint.data_position,
            size_bytes=size_bytes,
            payload=checkpoint.payload,
        )

    def _remove(self, name: str) -> None:
        del self._disk.files[name]

    @property
    def _is_writing(self) -> bool:
        return self._busy

    def _beside(self, code: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            await code()
            self._busy = False
            if self._when_done is not None:
                self._learner.later(0.0, self._when_done)

        self._busy = True
        drive(whole())

    def _now_s(self) -> float:
        return self._learner.now_s

    async def _sleep(self, seconds: float) -> None:
        await sleep(self._learner, seconds)
