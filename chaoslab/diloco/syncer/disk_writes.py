"""Writes of the syncer to disk: repeated until the disk accepts them, or left until the next one.

    retry     merges, numbers, initial parameters   every half second; what comes after them waits
    attempt   snapshots for evaluation              once, and merges go on; the next one is due
                  └─► OSError: syncer.blocked, once; syncer.freed when it succeeds

For jobs of `work` in order, or after they have ended: one write at a time.
"""

import errno
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chaoslab.core.payloads import SyncerBlocked, SyncerFreed
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.syncer.commit_log import HasBegun
from chaoslab.diloco.syncer.work import Jobs, Stage

T = TypeVar("T")

_AGAIN_S = 0.5
"""Seconds between two attempts to write."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_START_AGAIN_S = 0.2
"""The same at the start."""


class StillRefused(Exception):
    """The syncer ends, and the disk has not accepted what was insisted on."""


class DiskWrites:
    """Attempts to write, and reports of what the disk refuses."""

    def __init__(self, work: Jobs, *, emit: Emit, now: Callable[[], float]) -> None:
        self._work = work
        self._emit = emit
        self._now = now
        self.waiting = 0
        """Merges that are not on disk; `commits` counts them."""
        self._snapshots_refused_s: float | None = None
        """Time since which no snapshot was accepted; None if the last one was."""

    async def retry(self, write: Callable[[], None]) -> float:
        """Write, again while the disk refuses; seconds of the last try.

        StillRefused if the syncer ends meanwhile, HasBegun at once.
        """
        blocked_s: float | None = None
        while True:
            began_s = self._now()
            try:
                await self._work.stage(Stage.STORE, write)
                took_s = self._now() - began_s
                break
            except HasBegun:
                raise
            except OSError as error:
                if blocked_s is None:
                    blocked_s = self._now()
                    self._emit(SyncerBlocked(waiting=self.waiting, reason=_said(error)))
                if await self._work.pause(_AGAIN_S):
                    raise StillRefused(_said(error)) from error
        if blocked_s is not None:
            freed = SyncerFreed(waiting=self.waiting, blocked_s=self._now() - blocked_s)
            self._emit(freed)
        return took_s

    async def attempt(self, snapshot: Callable[[], None], *, tries: int = 1) -> None:
        """Write a snapshot if one is due; give it up if the disk refuses all tries.

        A snapshot stays due until one is written, so what frees the disk is the next that succeeds.
        """
        for left in reversed(range(tries)):
            try:
                snapshot()
                break
            except OSError as error:
                if self._snapshots_refused_s is None:
                    self._snapshots_refused_s = self._now()
                    blocked = SyncerBlocked(
                        waiting=self.waiting, reason=_said(error), is_snapshot=True
                    )
                    self._emit(blocked)
                if not left:
                    return
                await self._work.sleep(_AGAIN_S)
        if self._snapshots_refused_s is not None:
            blocked_s = self._now() - self._snapshots_refused_s
            self._snapshots_refused_s = None
            self._emit(SyncerFreed(waiting=self.waiting, blocked_s=blocked_s, is_snapshot=True))


def _said(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


async def retry_while_disk_full(
    make: Callable[[], T], emit: Emit, sleep: Callable[[float], Coroutine[Any, Any, None]]
) -> T:
    """Result of `make`, retried while the disk is full."""
    is_known = False
    while True:
        try:
            return make()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            if not is_known:
                emit(SyncerBlocked(waiting=0, reason=str(error.strerror)))
            is_known = True
            await sleep(_START_AGAIN_S)
