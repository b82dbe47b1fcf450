"""Joining of a simulated learner: how it gets every fragment before it trains.

    welcome ─┬─ initial: sends its own parameters ──────┐
             ├─ donor: waits for the checkpoint ────────┼─► holds everything ─► learner.joined
             └─ syncer: waits for the fragments ────────┘

As `diloco.learner.joining` does.
"""

from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerCompiled,
    LearnerJoined,
    LeftBecause,
    by_fragment,
)
from chaoslab.diloco.learner.checkpoints import LearnerCheckpoint
from chaoslab.diloco.learner.exchange import Joined
from chaoslab.diloco.settings import Source
from chaoslab.sim.counters import Counters
from chaoslab.sim.learner_process import LearnerProcess
from chaoslab.sim.leaving import Leaving
from chaoslab.sim.modelled_state import curve
from chaoslab.sim.process import Act, need
from chaoslab.sim.step_reports import StepReports


class Joining:
    """Joining of one life."""

    def __init__(
        self, learner: LearnerProcess, reports: StepReports, leaving: Leaving, *, then: Act
    ) -> None:
        """`then` begins training."""
        self._learner, self._reports, self._leaving = learner, reports, leaving
        self._then = then
        self._source, self._donor = Source.SYNCER, ""
        self.own: LearnerCheckpoint | None = None
        """Its own checkpoint, if it found one."""
        self.compile_s = 0.0
        """Time of its compilation."""
        self.steps_before_wait: int | None = None
        """Steps on a fragment after which it waits for a round; None: it never waits."""

    def go_on(self) -> None:
        """Go on with joining, as far as what has arrived allows."""
        learner, leaving = self._learner, self._leaving
        inbox = learner.messenger.inbox
        if inbox.refused is not None:
            leaving.refuse()
            return
        if inbox.stop is not None or leaving.reason:
            reason = LeftBecause.STOPPED if inbox.stop else LeftBecause(leaving.reason)
            leaving.go(step=0, reason=reason)
            return
        if inbox.joined is not None:
            joined, inbox.joined = inbox.joined, None
            self._prepare(joined)
        counters = learner.counters
        if counters is None or not self._take_in(counters):
            return
        learner.is_training = True
        compiled = LearnerCompiled(
            **learner.whose, loaded=6, compiled=0, took_s=round(self.compile_s, 6)
        )
        learner.say(compiled)
        self._announce(counters, self._source, is_new=True)
        self._then()

    def rejoin(self, counters: Counters, joined: Joined) -> None:
        """A further membership while it trains."""
        self.steps_before_wait = joined.settings.steps_before_wait
        self._announce(counters, Source(joined.source), is_new=False)

    def _prepare(self, joined: Joined) -> None:
        """Use its own values: initial ones, and the position of its own checkpoint."""
        self._source = Source(joined.source)
        self.steps_before_wait = joined.settings.steps_before_wait
        counters = self._learner.counters = Counters(
            joined.settings.fragments,
            step=joined.step,
            data_position=joined.data_position,
            loss=curve(0.0),
        )
        if self._source is Source.INITIAL:
            self._learner.messenger.send_initial([None] * len(counters.versions))
        elif self._source is Source.SYNCER and self.own is not None:
            counters.data_position = max(counters.data_position, self.own.data_position)

    def _take_in(self, counters: Counters) -> bool:
        """Adopt what has arrived, as the source allows; whether all fragments are there."""
        messenger = self._learner.messenger
        inbox = messenger.inbox
        if self._source is Source.DONOR:
            if inbox.handover is None:
                return False
            counters.take_over(inbox.handover)
            self._donor = inbox.handover.header.donor
        adoptions, inbox.adoptions = inbox.adoptions, {}
        for published in adoptions.values():
            data = counters.adopt(published)
            if data is not None:
                self._learner.say(LearnerAdopted(**messenger.membership, **data))
        return counters.is_complete

    def _announce(self, counters: Counters, source: Source, *, is_new: bool) -> None:
        self._reports.begin(counters)
        self._learner.boundary(counters)
        digests = by_fragment(counters.digests) if is_new else {}
        self._learner.say(
            LearnerJoined(
                **self._learner.messenger.membership,
                source=source.value,
                donor=self._donor if source is Source.DONOR else None,
                step=counters.step,
                data_position=counters.data_position,
                versions=by_fragment(counters.versions),
                digests=digests,
                shard=int(need(self._learner.flags, "shard")),
                learning_rate=self._learner.learning_rate(counters.step),
            )
        )
