"""How a learner comes to hold every fragment before it trains: from whichever source it is told.

    welcome ─► source ─┬─ initial: init, hand in the values ─┐
                       ├─ donor: wait for its checkpoint ────┼─► adopt what is newer ─► complete
                       └─ syncer: init, own moments ─────────┘
                  ▲ another welcome, when the link broke meanwhile

Whom to ask is the syncer's decision; renewing a membership while training goes on is no joining.
"""

from collections.abc import Callable

from chaoslab.diloco.learner.checkpoints import LearnerCheckpoint, LearnerStore
from chaoslab.diloco.learner.exchange import Adoption, Inbox, Joined
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.settings import Source


class TrainingEnded(Exception):
    """It ended before this learner had anything to train on; the message is its reason to leave."""


class JoinRefused(Exception):
    """The syncer does not want this learner; the message says why."""


class Joining:
    """One learner's way in. `run` returns when it holds everything."""

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
        """Where its parameters came from in the end."""
        self.donor: str | None = None
        self._replica = replica
        self._messenger = messenger
        self._store = store
        self._seed = seed
        self._adopt = adopt
        self._own: LearnerCheckpoint | None = None
        """Its own newest whole one. It is looked for whether it will be needed or not: a damaged
        one is found then, not on the day when there is no other."""
        self._leaving = leaving
        """Why it was asked to leave; empty if it was not."""

    def run(self) -> Joined:
        """Wait for the welcome, then for parameters from whichever source it named.

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
        """Wait a while for news; raises when they say that there is nothing to join."""
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
        """Hold the best that this learner has without the others: initial values, own moments."""
        self.source = source
        if source is Source.DONOR:
            return
        self._replica.init(self._seed)
        if source is Source.INITIAL:
            self._messenger.hand_in_initial(self._replica.bases())
        else:
            self._recall_moments()

    def _take_in(self, inbox: Inbox) -> bool:
        """Adopt what has arrived as far as the source allows; whether every fragment is held."""
        is_complete = len(inbox.adoptions) == len(self._replica.counters.versions)
        if inbox.handover is not None and self.source is Source.DONOR:
            self._replica.take_over(inbox.handover)
            self.donor = inbox.handover.donor
        elif self.source is Source.DONOR:
            if not is_complete:
                return False
            self._prepare(Source.SYNCER)  # no donor could help after all
        for adoption in inbox.adoptions.values():
            self._adopt(adoption)
        return self._replica.counters.holds_everything

    def _recall_moments(self) -> None:
        """Without a donor, the moments of this learner's own newest checkpoint are the best."""
        if self._own is not None:
            self._replica.recall(self._own.payload, self._own.data_position)
