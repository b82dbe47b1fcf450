"""A learner: trains without ever waiting, hands in its work when asked, adopts what is published.

    step ─► boundary: leave a snapshot ─► adopt what arrived ─► step ─► …     (this thread)
                          │        ▲
                          ▼        │ fragments, checkpoint, the end
                        Messenger ══════════════════════════════► syncer      (its own threads)

One operating-system process, data-parallel over all its devices (`inner`). It goes on stepping
whatever happens to its link, to the syncer or to the other learners.

Signals: SIGTERM leaves after the current step; SIGHUP is the notice of a preemption; SIGUSR1 wedges
the training thread until SIGUSR2 (a test hook: it hangs as a stuck collective would, while the
other threads live on). `python -m chaoslab.diloco.learner --help` says how to run it alone.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

from chaoslab.diloco.codec import digest
from chaoslab.diloco.fragments import Layout, TensorSpec, fingerprint
from chaoslab.diloco.inner import Inner, InnerSettings, LearnerState, enable_compilation_cache
from chaoslab.diloco.membership import Source
from chaoslab.diloco.messenger import Adoption, Handover, Inbox, Joined, Messenger, Snapshot
from chaoslab.diloco.node import Emit, say
from chaoslab.diloco.store import LearnerStore
from chaoslab.diloco.task import Batch, Task, load
from chaoslab.diloco.wire import Connection, add_tls_options, check_address, tls_of
from chaoslab.events import Json, Kind

_SAMPLE_S = 0.25
"""Least time between two learner.step lines."""
_FAREWELL_S = 15.0
"""How long a learner waits, after the end, for the last versions."""
_SMOOTHING = 0.1


class TrainingEnded(Exception):
    """It ended before this learner had anything to train on; the message is its reason to leave."""


class JoinRefused(Exception):
    """The syncer does not want this learner; the message says why."""


@dataclass(slots=True)
class Counters:
    """What a learner counts in one life. Lists have one entry for each of the P fragments."""

    step: int = 0
    tokens: int = 0
    data_position: int = 0
    loss: float = 0.0
    step_s: float = 0.0
    versions: list[int] = field(default_factory=list)
    since_steps: list[int] = field(default_factory=list)
    since_tokens: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)

    @classmethod
    def fresh(cls, fragments: int) -> "Counters":
        """No fragment is held yet: every version is -1."""
        return cls(
            versions=[-1] * fragments,
            since_steps=[0] * fragments,
            since_tokens=[0] * fragments,
            committed=[0] * fragments,
            discarded=[0] * fragments,
        )

    @property
    def holds_everything(self) -> bool:
        """Whether every fragment has been adopted at least once."""
        return all(version >= 0 for version in self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who a learner is, which data is its own, and how often it saves."""

    name: str
    incarnation: int
    shard: int
    shards: int
    seed: int
    save_every_s: float


class Learner:
    """The training thread. `run` returns when training has ended or the learner was asked to go."""

    def __init__(
        self,
        inner: Inner,
        task: Task,
        messenger: Messenger,
        assignment: Assignment,
        *,
        store: LearnerStore,
        emit: Emit,
    ) -> None:
        self._inner = inner
        self._task = task
        self._messenger = messenger
        self._assignment = assignment
        self._store = store
        self._emit = emit
        self._counters = Counters()
        self._layout = Layout(())
        self._state: LearnerState
        self._source = Source.SYNCER
        self._donor: str | None = None
        self._leaving = ""
        self._was_noticed = False
        self._saved_s = time.monotonic()
        self._sampled_s = time.monotonic()
        self._sampled_step = 0

    def run(self) -> None:
        """Join, train, leave. Raises JoinRefused or TrainingEnded if it never came to training."""
        self._join()
        batches = self._batches()
        while not self._leaving:
            inbox = self._messenger.take()
            self._note(inbox)
            for adoption in inbox.adoptions.values():
                self._adopt(adoption)
            if inbox.stop is not None:
                self._finish(inbox.stop[1])
                return
            self._step(next(batches))
        self._store.close()  # a checkpoint that is still being written goes before the last one
        self._save()
        self._store.close()
        self._sample()
        self._say(Kind.LEARNER_LEFT, step=self._counters.step, reason=self._leaving)
        self._messenger.leave(self._leaving)

    def ask_to_leave(self, reason: str) -> None:
        """Leave after the current step; after a notice, because of the preemption."""
        self._leaving = "preempted" if self._was_noticed else reason

    def note_preemption(self) -> None:
        """A preemption has been announced; SIGTERM will follow."""
        self._was_noticed = True
        self._say(Kind.LEARNER_NOTICED, step=self._counters.step)

    # ------------------------------------------------------------ joining

    def _join(self) -> None:
        """Wait for the welcome, then for parameters from whichever source it named."""
        self._inner.compile()  # the messenger connects meanwhile
        inbox = self._hear()
        while inbox.joined is None:
            inbox.update(self._hear())
        joined = inbox.joined
        self._layout = joined.layout
        self._inner.cut([[spec.name for spec in f.tensors] for f in joined.layout.fragments])
        self._counters = Counters.fresh(joined.settings.fragments)
        self._counters.data_position = joined.data_position
        self._counters.step = joined.step
        self._prepare(joined.source)
        while not self._take_in(inbox):
            news = self._hear()
            inbox.update(news)
            if news.joined is not None:
                joined = news.joined
                self._prepare(joined.source)
        self._announce(joined, self._source)

    def _hear(self) -> Inbox:
        """Wait a while for news; raises when they say that there is nothing to join."""
        self._messenger.wait(1.0)
        inbox = self._messenger.take()
        if inbox.stop is not None:
            raise TrainingEnded(f"stopped: {inbox.stop[0]}")
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if self._leaving:
            raise TrainingEnded(self._leaving)
        return inbox

    def _prepare(self, source: Source) -> None:
        """Hold the best that this learner has without the others: initial values, own moments."""
        self._source = source
        if source is Source.DONOR:
            return
        self._state = self._inner.init(self._assignment.seed)
        if source is Source.INITIAL:
            self._messenger.hand_in_initial(
                [self._inner.base_flat(self._state, f.index) for f in self._layout.fragments]
            )
        else:
            self._recall_moments()

    def _take_in(self, inbox: Inbox) -> bool:
        """Adopt what has arrived as far as the source allows; whether every fragment is held."""
        is_complete = len(inbox.adoptions) == len(self._counters.versions)
        if inbox.handover is not None and self._source is Source.DONOR:
            self._take_over(inbox.handover)
        elif self._source is Source.DONOR:
            if not is_complete:
                return False
            self._prepare(Source.SYNCER)  # no donor could help after all
        for adoption in inbox.adoptions.values():
            self._adopt(adoption)
        return self._counters.holds_everything

    def _take_over(self, handover: Handover) -> None:
        """Continue from a donor: its adopted fragments, AdamW moments, step; none of its work."""
        self._state = self._inner.unpack(self._inner.from_bytes(bytes(handover.payload)))
        self._donor = handover.donor
        self._counters.versions = list(handover.versions)
        self._counters.step = handover.step

    def _recall_moments(self) -> None:
        """Without a donor, the moments of this learner's own newest checkpoint are the best."""
        newest = self._store.load_newest()
        if newest is not None:
            self._state = self._inner.unpack(self._inner.from_bytes(newest.payload))
            self._counters.data_position = max(self._counters.data_position, newest.data_position)

    def _announce(self, joined: Joined, source: Source) -> None:
        self._sampled_step = self._counters.step
        self._sampled_s = time.monotonic()
        self._leave_snapshot()
        self._say(
            Kind.LEARNER_JOINED,
            epoch=joined.epoch,
            source=source.value,
            donor=self._donor if source is Source.DONOR else None,
            step=self._counters.step,
            data_position=self._counters.data_position,
            versions=_by_fragment(self._counters.versions),
        )

    def _note(self, inbox: Inbox) -> None:
        """A membership was renewed, or refused, while training went on."""
        if inbox.refused is not None:
            raise JoinRefused(inbox.refused)
        if inbox.joined is not None:
            self._announce(inbox.joined, inbox.joined.source)

    # ------------------------------------------------------------ training

    def _batches(self) -> Iterator[Batch]:
        mine = self._assignment
        return self._task.batches(mine.shard, mine.shards, mine.seed, self._counters.data_position)

    def _step(self, batch: Batch) -> None:
        began_s = time.monotonic()
        self._state, loss = self._inner.step(self._state, batch)
        counters = self._counters
        counters.loss = float(loss)  # returns when the step is done
        counters.step += 1
        counters.data_position += 1
        counters.tokens += self._task.tokens_per_batch
        counters.since_steps = [steps + 1 for steps in counters.since_steps]
        took_s = time.monotonic() - began_s
        counters.step_s += (_SMOOTHING if counters.step_s else 1.0) * (took_s - counters.step_s)
        self._leave_snapshot()
        if time.monotonic() - self._sampled_s >= _SAMPLE_S:
            self._sample()
        if time.monotonic() - self._saved_s >= self._assignment.save_every_s:
            self._save()

    def _leave_snapshot(self) -> None:
        state, counters, inner = self._state, self._counters, self._inner
        self._messenger.boundary(
            Snapshot(
                step=counters.step,
                tokens=counters.tokens,
                data_position=counters.data_position,
                loss=counters.loss,
                step_s=counters.step_s,
                versions=tuple(counters.versions),
                since_steps=tuple(counters.since_steps),
                since_tokens=tuple(counters.since_tokens),
                delta=lambda fragment: np.asarray(inner.delta(state, fragment)),
                pack=lambda: inner.to_bytes(inner.pack(state)),
            )
        )

    def _adopt(self, adoption: Adoption) -> None:
        """Overwrite one fragment (alpha = 0); own work on it is committed or discarded now."""
        counters, index = self._counters, adoption.fragment
        if adoption.version <= counters.versions[index]:
            return
        self._state = self._inner.adopt(self._state, index, adoption.values)
        work = counters.tokens - counters.since_tokens[index]
        committed = adoption.committed_tokens - counters.committed[index]
        counters.versions[index] = adoption.version
        counters.since_steps[index] = 0
        counters.since_tokens[index] = counters.tokens
        counters.committed[index] = adoption.committed_tokens
        counters.discarded[index] += work - committed
        self._say(
            Kind.LEARNER_ADOPTED,
            epoch=self._messenger.epoch,
            fragment=index,
            version=adoption.version,
            step=counters.step,
            digest=adoption.digest,
            discarded_tokens=work - committed,
            committed_tokens=committed,
        )

    # ------------------------------------------------------------ saying and saving

    def _sample(self) -> None:
        counters, now_s = self._counters, time.monotonic()
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
        """Hand the checkpoint to the store, which writes it on its own thread."""
        self._saved_s = time.monotonic()
        state, inner = self._state, self._inner
        self._store.save_later(
            step=self._counters.step,
            data_position=self._counters.data_position,
            payload=lambda: inner.to_bytes(inner.pack(state)),
        )

    def _finish(self, versions: Sequence[int]) -> None:
        """Training has ended: hold the last versions, say what is held, leave."""
        deadline_s = time.monotonic() + _FAREWELL_S
        while self._counters.versions != list(versions) and time.monotonic() < deadline_s:
            self._messenger.wait(0.5)
            for adoption in self._messenger.take().adoptions.values():
                self._adopt(adoption)
        self._sample()
        counters, places = self._counters, range(len(self._layout.fragments))
        for index in places:  # the result of training is what is global; own work ends here
            adopted = self._inner.base_flat(self._state, index)
            self._state = self._inner.adopt(self._state, index, adopted)
        self._say(
            Kind.LEARNER_FINAL,
            step=counters.step,
            tokens=counters.tokens,
            versions=_by_fragment(counters.versions),
            digests=_by_fragment(
                [digest(self._inner.params_flat(self._state, index)) for index in places]
            ),
            committed=_by_fragment(counters.committed),
            discarded=_by_fragment(counters.discarded),
            in_flight=_by_fragment([counters.tokens - since for since in counters.since_tokens]),
        )
        self._store.close()
        self._say(Kind.LEARNER_LEFT, step=counters.step, reason="stopped")
        self._messenger.leave("stopped")

    def _say(self, kind: Kind, **data: Json) -> None:
        mine = self._assignment
        self._emit(kind, {"learner": mine.name, "incarnation": mine.incarnation, **data})


def _by_fragment(values: Sequence[Json]) -> dict[str, Json]:
    return {str(index): value for index, value in enumerate(values)}


# ---------------------------------------------------------------- the process


def obey_signals(learner: Learner) -> None:
    """SIGTERM leaves, SIGHUP announces, SIGUSR1 wedges this thread until SIGUSR2."""
    wedged = False

    def wedge(_signal: int, _frame: FrameType | None) -> None:
        nonlocal wedged
        wedged = True
        while wedged:
            time.sleep(0.02)

    def release(_signal: int, _frame: FrameType | None) -> None:
        nonlocal wedged
        wedged = False

    signal.signal(signal.SIGTERM, lambda *_: learner.ask_to_leave("asked"))
    signal.signal(signal.SIGHUP, lambda *_: learner.note_preemption())
    signal.signal(signal.SIGUSR1, wedge)
    signal.signal(signal.SIGUSR2, release)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one learner; the exit code is 0 when it ended as it should, 3 when it was refused."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        tls = tls_of(options)
        check_address(options.syncer, tls)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    directory = options.directory or Path(options.name)
    incarnation = _remember_life(directory, options.incarnation)
    task = load(
        options.task or options.model,
        data=options.data,
        batch=options.batch,
        sequence=options.sequence,
    )
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
    specs = [
        TensorSpec(name=name, shape=shape, is_averaged=is_averaged)
        for name, shape, is_averaged in inner.specs
    ]
    messenger = Messenger(
        lambda: Connection(options.syncer, tls=tls),
        learner=options.name,
        incarnation=incarnation,
        specs=specs,
        emit=say,
    )
    learner = Learner(
        inner,
        task,
        messenger,
        Assignment(
            name=options.name,
            incarnation=incarnation,
            shard=options.shard,
            shards=options.shards,
            seed=options.seed,
            save_every_s=options.save_every,
        ),
        store=LearnerStore(directory / "checkpoints", fingerprint=fingerprint(specs)),
        emit=say,
    )
    obey_signals(learner)
    say(
        Kind.LEARNER_STARTED,
        {
            "learner": options.name,
            "incarnation": incarnation,
            "devices": len(inner.devices),
            "platform": inner.devices[0].platform,
            "parameters": inner.parameters,
        },
    )
    messenger.start()
    try:
        learner.run()
    except TrainingEnded as ended:
        say(
            Kind.LEARNER_LEFT,
            {"learner": options.name, "incarnation": incarnation, "step": 0,
             "reason": str(ended)},
        )  # fmt: skip
    except JoinRefused as refused:
        print(f"{options.name} was refused: {refused}", file=sys.stderr)  # noqa: T201  # for people
        return 3
    return 0


def _remember_life(directory: Path, asked: int | None) -> int:
    """Which life begins: the one asked for, else one more than the last in this directory."""
    file = directory / "incarnation"
    known = int(file.read_text()) if file.exists() else 0
    life = known + 1 if asked is None else asked
    directory.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(str(life))
    partial.replace(file)
    return life


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.learner",
        description="One learner of a Decoupled DiLoCo training.",
        epilog="example: python -m chaoslab.diloco.learner --syncer 127.0.0.1:4600 "
        "--name learner-0 --shard 0 --shards 4",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--syncer", required=True, metavar="HOST:PORT", help="where to connect")
    parser.add_argument("--name", default="learner-0", help="its name on the syncer's roster")
    parser.add_argument(
        "--incarnation", type=int, help="which of its lives this is; by default one more than last"
    )
    parser.add_argument(
        "--directory", type=Path, help="for its checkpoints; a folder of its name by default"
    )
    parser.add_argument("--model", default="nano", help="nano, micro, mini or small")
    parser.add_argument("--task", help="package.module:make, in place of --model")
    parser.add_argument("--data", default="stdlib", help="stdlib, or a file, folder or glob")
    parser.add_argument("--shard", type=int, default=0, help="which part of the data is its own")
    parser.add_argument("--shards", type=int, default=1, help="into how many the data is cut")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and order of data")
    parser.add_argument("--batch", type=int, default=8, help="sequences in one step")
    parser.add_argument("--sequence", type=int, default=128, help="tokens in one sequence")
    inner = InnerSettings()
    parser.add_argument("--lr", type=float, default=inner.lr, help="of AdamW, at its peak")
    parser.add_argument("--warmup-steps", type=int, default=inner.warmup_steps, help="to --lr")
    parser.add_argument("--decay-steps", type=int, default=inner.decay_steps, help="of the cosine")
    parser.add_argument("--final-share", type=float, default=inner.final_share, help="of --lr")
    parser.add_argument("--weight-decay", type=float, default=inner.weight_decay, help="of AdamW")
    parser.add_argument("--save-every", type=float, default=10.0, help="s between checkpoints")
    parser.add_argument("--compilation-cache", type=Path, help="keeps compiled steps for next time")
    add_tls_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
