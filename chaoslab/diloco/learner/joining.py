"""Joining: how a learner gets every fragment before it trains, from the source the syncer names.

    welcome ─► source ─┬─ initial: init, send the values ────┐
                       ├─ donor: wait for its checkpoint ────┼─► adopt newer fragments ─► complete
                       └─ syncer: init, own moments ─────────┘
                  ▲ another welcome: the donor failed, or the link broke meanwhile

The syncer selects the source, and says so again when that changes: a learner that was sent to a
donor waits for the checkpoint until the syncer names another source, whatever else arrives. A
membership renewed during training is not handled here.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from chaoslab.core.payloads import LeftBecause
from chaoslab.diloco.learner.checkpoints import Checkpoints, LearnerCheckpoint
from chaoslab.diloco.learner.exchange import Adoption, Inbox, Joined
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.settings import Source


class TrainingEnded(Exception):
    """Training ended before this learner could train."""

    def __init__(self, because: LeftBecause) -> None:
        super().__init__(because.value)
        self.because = because


class JoinRefused(Exception):
    """The syncer refused this learner; the message says why."""

    exit_code = 3


@dataclass(slots=True, kw_only=True)
class Joining:
    """One learner's joining. `run` returns when it holds every fragment."""

    replica: Replica
    messenger: Messenger
    store: Checkpoints
    adopt: Callable[[Adoption], Coroutine[Any, Any, None]]
    leaving: Callable[[], str]
    """Gives the reason why it was asked to leave; empty if it was not."""
    source: Source = Source.SYNCER
    """Source of the parameters in the end."""
    donor: str | None = None
    _own: LearnerCheckpoint | None = field(init=False, default=None)
    """Its newest intact checkpoint, loaded at every start even if it is not needed, so that
    damage is found while there are other sources."""

    async def run(self) -> Joined:
        """Wait for the welcome, then for parameters from the source that it names.

        Raises TrainingEnded or JoinRefused if there is nothing to join.
        """
        self._own = self.store.load_newest()  # the messenger connects meanwhile
        await self.replica.compile()
        inbox = await self._hear()
        while inbox.joined is None:
            inbox.update(await self._hear())
        joined = inbox.joined
        self._prepare(joined)
        while not await self._take_in(inbox):
            newer = await self._hear()
            inbox.update(newer)
            if newer.joined is not None:
                joined = newer.joined
                self._prepare(joined)
        return joined

    async def _hear(self) -> Inbox:
        """Wait for arrivals, at most 1 s; raises if training ended or the learner was refused."""
        await self.messenger.wait(1.0)
        inbox = self.messenger.take()
        if inbox.stop is not None:
            raise TrainingEnded(LeftBecause.STOPPED)
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if reason := self.leaving():
            raise TrainingEnded(LeftBecause(reason))
        return inbox

    def _prepare(self, joined: Joined) -> None:
        """Use what this learner has: initial values, and moments of its own checkpoint."""
        self.source = joined.source
        self.replica.cut(
            joined.layout,
            step=joined.step,
            data_position=joined.data_position,
            blend=joined.settings.blend,
        )
        if self.source is Source.DONOR:
            return
        self.replica.init()
        if self.source is Source.INITIAL:
            self.messenger.send_initial(self.replica.bases())
        elif self._own is not None:
            self.replica.recall(self._own.payload, self._own.data_position)

    async def _take_in(self, inbox: Inbox) -> bool:
        """Adopt what has arrived, as the source allows; whether all fragments are there."""
        if self.source is Source.DONOR:
            if inbox.handover is None:
                return False
            self.replica.take_over(inbox.handover)
            self.donor = inbox.handover.header.donor
        for adoption in inbox.adoptions.values():
            await self.adopt(adoption)
        return self.replica.counters.is_complete
