"""Joining: how a learner gets every fragment before it trains, from the source the syncer names.

    welcome ─► source ─┬─ initial: init, send the values ────┐
                       ├─ donor: wait for its checkpoint ────┼─► adopt newer fragments ─► complete
                       └─ syncer: init, own moments ─────────┘
                  ▲ another welcome, if the link broke meanwhile

The syncer selects the source. A membership renewed during training is not handled here.
"""

from collections.abc import Callable

from chaoslab.diloco.learner.checkpoints import LearnerCheckpoint, LearnerStore
from chaoslab.diloco.learner.exchange import Adoption, Inbox, Joined
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.settings import Source


class TrainingEnded(Exception):
    """Training ended before this learner could train; the message is the reason for leaving."""


class JoinRefused(Exception):
    """The syncer refused this learner; the message says why."""


class Joining:
    """One learner's joining. `run` returns when it holds every fragment."""

    def __init__(
        self,
        replica: Replica,
        messenger: Messenger,
        store: LearnerStore,
        *,
        seed: int,
        adopt: Callable[[Adoption], None],
        leaving: Callable[[], str],
    ) -> None:
        self.source = Source.SYNCER
        """Source of the parameters in the end."""
        self.donor: str | None = None
        self._replica = replica
        self._messenger = messenger
        self._store = store
        self._seed = seed
        self._adopt = adopt
        self._own: LearnerCheckpoint | None = None
        """Its newest intact checkpoint, loaded at every start even if it is not needed, so that
        damage is found while there are other sources."""
        self._leaving = leaving
        """Reason why it was asked to leave; empty if it was not."""

    def run(self) -> Joined:
        """Wait for the welcome, then for parameters from the source that it names.

        Raises TrainingEnded or JoinRefused if there is nothing to join.
        """
        self._own = self._store.load_newest()  # the messenger connects meanwhile
        self._replica.compile()
        inbox = self._hear()
        while inbox.joined is None:
            inbox.update(self._hear())
        joined = inbox.joined
        self._replica.cut(joined.layout, step=joined.step, data_position=joined.data_position)
        self._prepare(joined.source)
        while not self._take_in(inbox):
            recorder = self._hear()
            inbox.update(recorder)
            if recorder.joined is not None:
                joined = recorder.joined
                self._prepare(joined.source)
        return joined

    def _hear(self) -> Inbox:
        """Wait for arrivals, at most 1 s; raises if training ended or the learner was refused."""
        self._messenger.wait(1.0)
        inbox = self._messenger.take()
        if inbox.stop is not None:
            raise TrainingEnded(f"stopped: {inbox.stop[0]}")
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if reason := self._leaving():
            raise TrainingEnded(reason)
        return inbox

    def _prepare(self, source: Source) -> None:
        """Use what this learner has: initial values, and moments of its own checkpoint."""
        self.source = source
        if source is Source.DONOR:
            return
        self._replica.init(self._seed)
        if source is Source.INITIAL:
            self._messenger.send_initial(self._replica.bases())
        elif self._own is not None:
            self._replica.recall(self._own.payload, self._own.data_position)

    def _take_in(self, inbox: Inbox) -> bool:
        """Adopt what has arrived, as the source allows; whether every fragment is held."""
        is_complete = len(inbox.adoptions) == len(self._replica.counters.fragments)
        if inbox.handover is not None and self.source is Source.DONOR:
            self._replica.take_over(inbox.handover)
            self.donor = inbox.handover.donor
        elif self.source is Source.DONOR:
            if not is_complete:
                return False
            self._prepare(Source.SYNCER)  # no donor was available after all
        for adoption in inbox.adoptions.values():
            self._adopt(adoption)
        return self._replica.holds_everything
