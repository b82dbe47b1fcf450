"""Training thread of a learner: it joins, steps, adopts what is published, and leaves.

    join ─► step ─► boundary: leave a snapshot ─► adopt what arrived ─► step ─► …  (this thread)
                                  │        ▲
                                  ▼        │ fragments, checkpoint, stop
                                Messenger ═══════════════════════► syncer  (its own threads)

It keeps stepping whatever happens to its link, to the syncer or to other learners, unless the
settings say `blocking` (`round_wait`) or `data_parallel` (module of that name). See `joining`,
`replica` (its state) and `signals`. A simulation runs the same, on a modelled replica and store.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from chaoslab.core.events import Payload
from chaoslab.core.payloads import (
    LearnerAdopted,
    LearnerJoined,
    LearnerLeft,
    LearnerNoticed,
    LearnerStep,
    LearnerWaiting,
    LeftBecause,
    by_fragment,
)
from chaoslab.core.protocol import Phase
from chaoslab.diloco.learner.checkpoints import Checkpoints
from chaoslab.diloco.learner.counters import Counters
from chaoslab.diloco.learner.exchange import Adoption, Inbox, Joined
from chaoslab.diloco.learner.joining import Joining, JoinRefused, TrainingEnded
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.replica import Batch, CommunicatorLost, GradientAverager, Replica
from chaoslab.diloco.learner.round_wait import TURN_S, RoundWait
from chaoslab.diloco.learner.signals import Wedge
from chaoslab.diloco.node.events import Emit
from chaoslab.diloco.settings import Source
from chaoslab.diloco.wire import wire_pb2 as pb

_SAMPLE_S = 0.25
"""Least seconds between two learner.step events."""
_DRAIN_S = 15.0
"""Seconds that a learner waits, after the end, for the last versions."""


class Communicators(GradientAverager, Protocol):
    """Communicators with other learners, one at a time: `DataParallel`."""

    number: int
    is_formed: bool
    may_wait: Callable[[], bool]

    def join(self, order: pb.Communicator, payload: bytes) -> bytes: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...


class Shard(NamedTuple):
    """Data of a learner."""

    number: int
    batches: Callable[[int], Iterator[Batch]]
    """Batches from a position on."""


class Learner:
    """The training thread. `run` returns when training has ended or the learner must leave."""

    def __init__(
        self,
        replica: Replica,
        messenger: Messenger,
        *,
        store: Checkpoints,
        shard: Shard,
        save_every_s: float,
        emit: Emit,
        parallel: Communicators | None = None,
    ) -> None:
        """`parallel`: what makes the steps of `replica`, if they are made with other learners."""
        self._parallel = parallel
        if parallel is not None:
            parallel.may_wait = self._may_wait
        self._goes_back = False
        self._replica = replica
        self._messenger = messenger
        self._store = store
        self._shard = shard
        self._save_every_s = save_every_s
        self._emit = emit
        self._phases = messenger.phases
        self._waits = messenger.waits
        self._donor: str | None = None
        self.wedge = Wedge()
        """Test hook that hangs this thread."""
        self._leaving = ""
        self._was_noticed = self._has_told_notice = False
        self._saved_s = self._waits.now_s()
        self._sampled_s = self._waits.now_s()
        self._sampled_step = self._sampled_overruns = 0
        self._round_wait = RoundWait(self._say_waiting)

    async def run(self) -> None:
        """Join, train, leave. JoinRefused if the syncer does not let it in."""
        try:
            await self._run()
        finally:
            if self._parallel is not None:
                self._parallel.close()

    async def _run(self) -> None:
        try:
            await self._join()
        except TrainingEnded as ended:
            self._say(LearnerLeft(**self._messenger.whose, step=0, reason=ended.because))
            return
        batches = self._shard.batches(self._replica.counters.data_position)
        batch: Batch | None = None
        while not self._leaving:
            inbox = self._messenger.take()
            self._note(inbox)
            for adoption in inbox.adoptions.values():
                await self._adopt(adoption)
            if inbox.stop is not None:
                await self._finish(inbox.stop.versions)
                return
            if self._is_alone or self._round_wait.is_needed(self._replica.counters):
                await self._await_round()
                continue
            batch = next(batches) if batch is None else batch
            try:
                with self.wedge.allowed():
                    await self._replica.step(batch)
            except CommunicatorLost:
                self._leave_communicator()
                continue
            batch = None
            self._note_step()
        await self._store.close()  # finish a checkpoint that is being written before the last one
        self._save()
        await self._store.close()
        self._tell_notice()
        self._sample()
        self._leave(LeftBecause(self._leaving))

    def install_signal_handlers(self) -> None:
        """Install handlers of this process: SIGTERM leaves, SIGHUP announces a preemption.

        Those of the test hook `wedge` as well.
        """
        signal.signal(signal.SIGTERM, lambda *_: self.ask_to_leave())
        signal.signal(signal.SIGHUP, lambda *_: self.note_preemption())
        self.wedge.install_handlers()

    def ask_to_leave(self) -> None:
        """Leave after the current step."""
        self._leaving = "preempted" if self._was_noticed else "asked"
        self._replica.pace.stop_waiting()

    def note_preemption(self) -> None:
        """Report a preemption that was announced, and name it as the reason to leave."""
        self._was_noticed = True  # told by the thread: a handler may find a line half written

    # ------------------------------------------------------------ joining

    async def _join(self) -> None:
        joining = Joining(
            replica=self._replica,
            messenger=self._messenger,
            store=self._store,
            adopt=self._adopt,
            leaving=self._asked_to_leave,
        )
        joined = await joining.run()
        self._say(self._replica.compiled(self._messenger.whose))
        self._donor = joining.donor
        self._announce(joined, joining.source)

    def _asked_to_leave(self) -> str:
        """Reason to leave; empty if none. Polled while joining, where this thread may hang."""
        with self.wedge.allowed():
            return self._leaving

    def _announce(self, joined: Joined, source: Source) -> None:
        self._round_wait.limit = joined.settings.steps_before_wait
        self._goes_back = joined.settings.data_parallel == "rigid"
        if (joined.settings.data_parallel != "off") != (self._parallel is not None):
            raise JoinRefused(
                "--data-parallel: must be given if, and only if, the settings of the syncer say "
                f"data_parallel; they say {joined.settings.data_parallel}"
            )
        self._leave_communicator()
        self._sampled_step = self._replica.counters.step
        self._sampled_s = self._waits.now_s()
        self._sampled_overruns = self._replica.pace.overruns
        self._messenger.boundary(self._replica.snapshot())
        kept_its_own = source is Source.RESUMED
        self._say(
            LearnerJoined(
                **self._messenger.whose,
                epoch=joined.epoch,
                source=source.value,
                donor=self._donor if source is Source.DONOR else None,
                step=self._replica.counters.step,
                data_position=self._replica.counters.data_position,
                versions=by_fragment(self._replica.counters.versions),
                digests={} if kept_its_own else self._replica.digests(),
                shard=self._shard.number,
                learning_rate=self._replica.learning_rate,
                moments=None if kept_its_own else self._replica.moments_digest(),
            )
        )

    def _note(self, inbox: Inbox) -> None:
        """Handle a membership that was renewed or refused during training."""
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if inbox.joined is not None:
            self._announce(inbox.joined, inbox.joined.source)
        if inbox.communicator is not None and inbox.stop is None:
            self._communicate(inbox.communicator)

    # ------------------------------------------------------------ training with other learners

    @property
    def _is_alone(self) -> bool:
        """Whether it must not step, as it is in no communicator."""
        return self._parallel is not None and not self._parallel.is_formed

    def _communicate(self, order: pb.Communicator) -> None:
        """Enter or leave a communicator, as the syncer says."""
        if self._parallel is None:
            return
        has_work = self._replica.counters.has_work
        if order.size == 0 or has_work:  # with work it cannot begin with the others
            if order.number >= self._parallel.number:
                self._parallel.number = order.number
                self._leave_communicator()
            return
        try:
            payload = self._parallel.join(order, self._replica.pack())
        except CommunicatorLost:
            self._leave_communicator()
            return
        if order.rank > 0:
            self._replica.take_state(payload)
        self._replica.report(waits=False)
        self._replica.pace.restart()

    def _leave_communicator(self) -> None:
        if self._parallel is None:
            return
        self._parallel.leave()
        if self._goes_back:
            self._replica.go_back()
        self._replica.report(waits=True)
        self._messenger.boundary(self._replica.snapshot())

    def _may_wait(self) -> bool:
        """Report that it waits for the others; whether it may, or is called back."""
        with self.wedge.postponed():  # the messenger's lock
            self._replica.report(waits=True)
            self._messenger.boundary(self._replica.snapshot())
            self._round_wait.add(self._replica.counters, TURN_S)
            self._tell_notice()
        return not self._leaving and not self._messenger.calls_back

    # ------------------------------------------------------------ training

    def _note_step(self) -> None:
        self._messenger.boundary(self._replica.snapshot())
        self._tell_notice()
        if self._waits.now_s() - self._sampled_s >= _SAMPLE_S:
            self._sample()
        if self._waits.now_s() - self._saved_s >= self._save_every_s:
            self._save()

    async def _await_round(self) -> None:
        """Wait a moment for a round or for other learners; report and answer meanwhile."""
        began_s = self._waits.now_s()
        self._messenger.boundary(self._replica.snapshot())
        await self._messenger.wait(TURN_S)
        self._round_wait.add(self._replica.counters, self._waits.now_s() - began_s)
        self._replica.pace.restart()
        self._tell_notice()
        with self.wedge.allowed():
            pass

    def _say_waiting(self, counters: Counters, waited_s: float) -> None:
        self._say(
            LearnerWaiting(
                **self._messenger.membership,
                step=counters.step,
                fragment=counters.oldest,
                c_steps=counters.c_steps(counters.oldest),
                waited_s=waited_s,
                is_for_learners=self._parallel is not None
                and not self._round_wait.is_needed(counters),
            )
        )

    def _tell_notice(self) -> None:
        if self._was_noticed and not self._has_told_notice:
            self._has_told_notice = True
            step = self._replica.counters.step
            self._say(LearnerNoticed(**self._messenger.whose, step=step))

    async def _adopt(self, adoption: Adoption) -> None:
        data = self._replica.adopt(adoption)
        if data is not None:
            place = {"fragment": adoption.fragment, "version": adoption.version}
            await self._phases.reach(Phase.ADOPT, **place)
            self._say(LearnerAdopted(**self._messenger.membership, **data))

    # ------------------------------------------------------------ reports and checkpoints

    def _sample(self) -> None:
        counters, now_s = self._replica.counters, self._waits.now_s()
        steps, pace = counters.step - self._sampled_step, self._replica.pace
        self._say(
            LearnerStep(
                **self._messenger.membership,
                step=counters.step,
                steps=steps,
                step_s=(now_s - self._sampled_s) / steps if steps else 0.0,
                period_s=pace.period_s,
                overruns=pace.overruns - self._sampled_overruns,
                loss=counters.loss,
                tokens=counters.tokens,
                data_position=counters.data_position,
                waited_s=self._round_wait.take_s(),
                peer_bytes=counters.peer_bytes,
                learning_rate=self._replica.learning_rate,
            )
        )
        self._sampled_step, self._sampled_s = counters.step, now_s
        self._sampled_overruns = pace.overruns

    def _save(self) -> None:
        """Pass the checkpoint to the store, which writes it on its own thread."""
        self._saved_s = self._waits.now_s()
        snapshot = self._replica.snapshot()
        self._store.save_later(
            step=snapshot.counters.step,
            data_position=snapshot.counters.data_position,
            payload=snapshot.pack,
        )

    async def _finish(self, versions: Sequence[int]) -> None:
        """Training has ended: adopt the last versions, report them, leave."""
        deadline_s = self._waits.now_s() + _DRAIN_S
        last = list(versions)
        while self._replica.counters.versions != last and self._waits.now_s() < deadline_s:
            await self._messenger.wait(0.5)
            with self.wedge.allowed():
                pass
            for adoption in self._messenger.take().adoptions.values():
                await self._adopt(adoption)
        self._sample()
        self._replica.forget_own_work()
        self._say(self._replica.final(self._messenger.whose))
        await self._store.close()
        self._leave(LeftBecause.STOPPED)

    def _leave(self, why: LeftBecause) -> None:
        step = self._replica.counters.step
        self._say(LearnerLeft(**self._messenger.whose, step=step, reason=why))
        self._messenger.leave(why.value)

    def _say(self, said: Payload) -> None:
        self._emit(said)
