"""Program of the learner: trains without waiting, pushes when asked, adopts what is published.

    join ─► step ─► boundary: leave a snapshot ─► adopt what arrived ─► step ─► …  (this thread)
                                  │        ▲
                                  ▼        │ fragments, checkpoint, stop
                                Messenger ═══════════════════════► syncer  (its own threads)

One operating-system process, data-parallel over all its devices (`inner_steps`). It keeps stepping
whatever happens to its link, to the syncer or to other learners. See `joining`, `replica` (its
state) and `signals`. Run it alone by `python -m chaoslab.diloco.learner --help`.
"""

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from chaoslab.core.events import Json, Kind
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.learner.exchange import Adoption, Inbox, Joined
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.learner.joining import Joining, JoinRefused, TrainingEnded
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.options import next_incarnation, parser, token_of
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.replica import Replica, by_fragment
from chaoslab.diloco.learner.signals import Wedge
from chaoslab.diloco.learner.tampering import Tampering
from chaoslab.diloco.model.compilation import enable_compilation_cache
from chaoslab.diloco.model.data import DataError
from chaoslab.diloco.model.fragments import fingerprint
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import Batch, TaskError
from chaoslab.diloco.node.clocks import Clocks
from chaoslab.diloco.node.events import Emit, say
from chaoslab.diloco.node.health import HealthFile
from chaoslab.diloco.node.hooks import Hooks
from chaoslab.diloco.node.phases import Phase, Phases
from chaoslab.diloco.settings import Source
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.link_meter import PING_S
from chaoslab.diloco.wire.probe import Probe
from chaoslab.diloco.wire.tls import check_address, tls_of

_SAMPLE_S = 0.25
"""Least seconds between two learner.step events."""
_DRAIN_S = 15.0
"""Seconds that a learner waits, after the end, for the last versions."""


class Learner:
    """The training thread. `run` returns when training has ended or the learner must leave.

    `emit` adds the learner's name and incarnation to each event.
    """

    def __init__(
        self,
        replica: Replica,
        messenger: Messenger,
        *,
        store: LearnerStore,
        batches: Callable[[int], Iterator[Batch]],
        save_every_s: float,
        emit: Emit,
        phases: Phases,
    ) -> None:
        """`batches` gives those of this learner from a position on."""
        self._replica = replica
        self._messenger = messenger
        self._store = store
        self._batches = batches
        self._save_every_s = save_every_s
        self._emit = emit
        self._phases = phases
        self._donor: str | None = None
        self.wedge = Wedge()
        """Test hook that hangs this thread."""
        self._leaving = ""
        self._was_noticed = self._has_told_notice = False
        self._saved_s = time.monotonic()
        self._sampled_s = time.monotonic()
        self._sampled_step = 0

    def run(self) -> None:
        """Join, train, leave. Raises JoinRefused or TrainingEnded if training did not begin."""
        self._join()
        batches = self._batches(self._replica.counters.data_position)
        while not self._leaving:
            inbox = self._messenger.take()
            self._note(inbox)
            for adoption in inbox.adoptions.values():
                self._adopt(adoption)
            if inbox.stop is not None:
                self._finish(inbox.stop.versions)
                return
            with self.wedge.allowed():
                self._replica.step(next(batches))
            self._note_step()
        self._store.close()  # finish a checkpoint that is being written before the last one
        self._save()
        self._store.close()
        self._tell_notice()
        self._sample()
        self._say(Kind.LEARNER_LEFT, step=self._replica.counters.step, reason=self._leaving)
        self._messenger.leave(self._leaving)

    def install_signal_handlers(self) -> None:
        """Install handlers of this process: SIGTERM leaves, SIGHUP announces a preemption.

        Those of the test hook `wedge` as well.
        """
        signal.signal(signal.SIGTERM, lambda *_: self.ask_to_leave())
        signal.signal(signal.SIGHUP, lambda *_: self._note_preemption())
        self.wedge.install_handlers()

    def ask_to_leave(self) -> None:
        """Leave after the current step."""
        self._leaving = "preempted" if self._was_noticed else "asked"
        self._replica.pace.hurry()

    def _note_preemption(self) -> None:
        self._was_noticed = True  # reported by the thread: in a handler, a line may be half written

    # ------------------------------------------------------------ joining

    def _join(self) -> None:
        joining = Joining(
            replica=self._replica,
            messenger=self._messenger,
            store=self._store,
            adopt=self._adopt,
            leaving=self._asked_to_leave,
        )
        joined = joining.run()
        self._donor = joining.donor
        self._announce(joined, joining.source)

    def _asked_to_leave(self) -> str:
        """Reason to leave; empty if none. Polled while joining, where this thread may hang."""
        with self.wedge.allowed():
            return self._leaving

    def _announce(self, joined: Joined, source: Source) -> None:
        self._sampled_step = self._replica.counters.step
        self._sampled_s = time.monotonic()
        self._messenger.boundary(self._replica.snapshot())
        self._say(
            Kind.LEARNER_JOINED,
            epoch=joined.epoch,
            source=source.value,
            donor=self._donor if source is Source.DONOR else None,
            step=self._replica.counters.step,
            data_position=self._replica.counters.data_position,
            versions=by_fragment(self._replica.counters.versions),
            digests={} if source is Source.RESUMED else self._replica.digests(),
        )

    def _note(self, inbox: Inbox) -> None:
        """Handle a membership that was renewed or refused during training."""
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if inbox.joined is not None:
            self._announce(inbox.joined, inbox.joined.source)

    # ------------------------------------------------------------ training

    def _note_step(self) -> None:
        self._messenger.boundary(self._replica.snapshot())
        self._tell_notice()
        if time.monotonic() - self._sampled_s >= _SAMPLE_S:
            self._sample()
        if time.monotonic() - self._saved_s >= self._save_every_s:
            self._save()

    def _tell_notice(self) -> None:
        if self._was_noticed and not self._has_told_notice:
            self._has_told_notice = True
            self._say(Kind.LEARNER_NOTICED, step=self._replica.counters.step)

    def _adopt(self, adoption: Adoption) -> None:
        data = self._replica.adopt(adoption)
        if data is not None:
            place = {"fragment": adoption.fragment, "version": adoption.version}
            self._phases.reach(Phase.ADOPT, **place)
            self._say(Kind.LEARNER_ADOPTED, epoch=self._messenger.epoch, **data)

    # ------------------------------------------------------------ reports and checkpoints

    def _sample(self) -> None:
        counters, now_s = self._replica.counters, time.monotonic()
        steps = counters.step - self._sampled_step
        self._say(
            Kind.LEARNER_STEP,
            epoch=self._messenger.epoch,
            step=counters.step,
            steps=steps,
            step_s=(now_s - self._sampled_s) / steps if steps else 0.0,
            loss=counters.loss,
            tokens=counters.tokens,
            data_position=counters.data_position,
        )
        self._sampled_step, self._sampled_s = counters.step, now_s

    def _save(self) -> None:
        """Pass the checkpoint to the store, which writes it on its own thread."""
        self._saved_s = time.monotonic()
        counters, _, pack = self._replica.snapshot()
        self._store.save_later(
            step=counters.step, data_position=counters.data_position, payload=pack
        )

    def _finish(self, versions: Sequence[int]) -> None:
        """Training has ended: adopt the last versions, report them, leave."""
        deadline_s = time.monotonic() + _DRAIN_S
        while self._replica.counters.versions != list(versions) and time.monotonic() < deadline_s:
            self._messenger.wait(0.5)
            with self.wedge.allowed():
                pass
            for adoption in self._messenger.take().adoptions.values():
                self._adopt(adoption)
        self._sample()
        self._replica.forget_own_work()
        self._say(Kind.LEARNER_FINAL, **self._replica.final())
        self._store.close()
        self._say(Kind.LEARNER_LEFT, step=self._replica.counters.step, reason="stopped")
        self._messenger.leave("stopped")

    def _say(self, kind: Kind, **data: Json) -> None:
        self._emit(kind, data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one learner; exit code 0 at the end of training, 3 if it was refused."""
    flags = parser()
    options = flags.parse_args(arguments)
    try:
        tls = tls_of(options)
        check_address(options.syncer, tls)
        token = token_of(options)
        pace = Pace(speed=options.speed)
    except (OSError, ValueError) as error:
        flags.error(str(error))
    directory = options.directory or Path(options.name)
    incarnation = next_incarnation(directory, options.incarnation)
    try:
        task = load(
            options.task or options.model,
            data=options.data,
            batch=options.batch,
            sequence=options.sequence,
        )
    except (TaskError, DataError) as error:
        flags.error(str(error))
    if options.compilation_cache is not None:
        enable_compilation_cache(options.compilation_cache)
    inner = Inner(
        task,
        InnerSettings(
            lr=options.lr,
            warmup_steps=options.warmup_steps,
            decay_steps=options.decay_steps,
            final_share=options.final_share,
            weight_decay=options.weight_decay,
        ),
    )

    def tell(kind: Kind, data: Mapping[str, Json]) -> None:
        say(kind, {"learner": options.name, "incarnation": incarnation, **data})

    phases, tampering = Phases(tell, {}), Tampering(tell)
    store = LearnerStore(directory / "checkpoints", fingerprint=fingerprint(inner.specs), emit=tell)
    messenger = Messenger(
        lambda: Connection(options.syncer, token=token, tls=tls),
        learner=options.name,
        incarnation=incarnation,
        specs=inner.specs,
        emit=tell,
        tampering=tampering,
        phases=phases,
        probe=lambda probed: Probe(options.syncer, probed, tls=tls, period_s=PING_S).start(),
    )
    learner = Learner(
        Replica(inner, task.tokens_per_batch, pace, seed=options.seed),
        messenger,
        store=store,
        batches=partial(task.batches, options.shard, options.shards, options.seed),
        save_every_s=options.save_every,
        emit=HealthFile(options.health_file).touched_by(tell),
        phases=phases,
    )
    learner.install_signal_handlers()
    hooks = Hooks()
    phases.register(hooks)
    hooks.on("clock", Clocks(tell).apply_hook)
    hooks.on("slow", pace.apply_hook)
    hooks.on("updates", tampering.apply_hook)
    hooks.on("disk", store.apply_hook)
    if options.test_hooks:
        hooks.listen()
    tell(
        Kind.LEARNER_STARTED,
        {
            "devices": len(inner.devices),
            "platform": inner.devices[0].platform,
            "parameters": inner.parameters,
        },
    )
    messenger.start()
    try:
        learner.run()
    except TrainingEnded as ended:
        tell(Kind.LEARNER_LEFT, {"step": 0, "reason": str(ended)})
    except JoinRefused as refused:
        print(f"{options.name} was refused: {refused}", file=sys.stderr)  # noqa: T201  # for people
        return 3
    return 0
