"""A whole training in one process and in virtual time, for experiments that noise would decide.

    heap of times ─► a learner's step ends ─► counters ─► Policy ─► Pull
          ▲                                                          │ the newest snapshot's delta
          │                                                          ▼ in the training's codec
      adopted at the next step boundary ◄─ publication ◄─ SyncerState: merge, outer step

Policy, state of the syncer, merge, codec, replica and inner steps are those of real runs; what is
replaced are processes, transport and time. Time is virtual: a learner's step takes `step_s`, a push
and a publication half of `sync_s` each. Equal arguments give equal results, bit for bit on one
machine and number of threads. Without faults: a learner that the policy suspects is an error.

`data_parallel` is the rigid baseline: the same batches, one step for all learners together.
"""

import heapq
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import jax
import numpy as np

from chaoslab.diloco.evaluate import assembled
from chaoslab.diloco.learner import messages as learner_messages
from chaoslab.diloco.learner.exchange import Adoption, Snapshot
from chaoslab.diloco.learner.inner_steps import Inner
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.model.codec import decode, encode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import Layout
from chaoslab.diloco.model.task import Batch, Params, Task
from chaoslab.diloco.node.snapshots import read_snapshot, snapshot_paths
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer import messages as syncer_messages
from chaoslab.diloco.syncer.decisions import (
    Abandon,
    Action,
    Hello,
    Member,
    Merge,
    Pull,
    SendAll,
    Stop,
    Welcome,
)
from chaoslab.diloco.syncer.policy import Policy
from chaoslab.diloco.syncer.resume import commit_record
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.training_state import Publication
from chaoslab.diloco.wire import wire_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Virtual durations, in s."""

    step_s: tuple[float, ...]
    """Of a step of each learner."""
    sync_s: float
    """From the pull of a fragment to the arrival of its next version at the learners."""

    @classmethod
    def equal(cls, learners: int, *, overlap: int) -> Self:
        """Steps of 1 s; a version arrives within step `overlap` of the round (tau)."""
        return cls(step_s=(1.0,) * learners, sync_s=max(0.5, overlap - 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A training that has ended."""

    virtual_s: float
    steps: tuple[int, ...]
    """Steps of each learner."""
    trained_tokens: int
    """By all learners together."""
    committed_tokens: float
    """Merged into the global parameters: the mean over the fragments."""
    discarded: float
    """Share of the trained tokens that an adoption overwrote."""
    merges: tuple[Merge, ...]
    """With the cosines of their contributions."""
    bounded: int
    """Pushes that were shortened."""
    losses: tuple[tuple[int, float], ...]
    """Committed tokens and held-out loss of each snapshot; the last one is of the result."""

    @property
    def loss(self) -> float:
        """Held-out loss of the global parameters in the end."""
        return self.losses[-1][1]

    @property
    def steps_per_push(self) -> float:
        """Mean c_steps of the contributions."""
        pushed = [given.c_steps for merge in self.merges for given in merge.contributions]
        return sum(pushed) / len(pushed)


@dataclass(slots=True, kw_only=True)
class Learner:
    """A replica, what it has been asked for, and what has arrived for it."""

    replica: Replica
    batches: Iterator[Batch]
    step_s: float
    epoch: int
    snapshot: Snapshot
    pulls: list[pb.Pull] = field(default_factory=list)
    arrived: dict[int, Adoption] = field(default_factory=dict)
    is_waiting: bool = False
    """Whether it makes no step until it has adopted a newer version (`blocking`)."""


class OneProcess:
    """One training. `run` ends with the first stop rule of the settings that is met."""

    def __init__(
        self,
        task: Task,
        inner: Inner,
        settings: Settings,
        speeds: Speeds,
        *,
        seed: int,
        directory: Path,
        first: type[Replica] = Replica,
    ) -> None:
        """`directory`, empty, is for the state of the syncer and for snapshots.

        `first` makes the first learner's replica.
        """
        self._task, self._settings, self._speeds = task, settings, speeds
        self._codec = Codec(settings.compression)
        self._policy = Policy(settings)
        self._snapshots = directory / "snapshots"
        store = SyncerStore(directory / "state", durable=False)
        self._syncer_state = SyncerState(settings, store, snapshots=self._snapshots)
        self._layout = Layout.balance(inner.specs, settings.fragments)
        self._now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._ordered = 0
        self._merges: list[Merge] = []
        self._bounded = 0
        self._is_over = False
        self._learners: dict[int, Learner] = {}
        self._join(inner, seed, first)

    def run(self) -> Measured:
        """Train to the end, then evaluate every snapshot."""
        while not self._is_over:
            due_s, next_s = self._policy.next_s(), self._events[0][0]
            if self._now_s < due_s < next_s:
                self._now_s = due_s
            else:
                self._now_s, _, happen = heapq.heappop(self._events)
                happen()
            self._follow(self._policy.advance(self._now_s))
        self._syncer_state.last_snapshot(self._policy)
        self._syncer_state.close()
        return self._measured()

    # ------------------------------------------------------------ start

    def _join(self, inner: Inner, seed: int, first: type[Replica]) -> None:
        """Every learner joins; the first one's initial values become version 0 for all."""
        self._syncer_state.set_specs(tuple(inner.specs))
        shards, chance = len(self._settings.learners), random.Random(seed)
        for shard, (name, step_s) in enumerate(
            zip(self._settings.learners, self._speeds.step_s, strict=True)
        ):
            make = Replica if shard else first
            replica = make(inner, self._task.tokens_per_batch, Pace(), seed=seed)
            replica.cut(self._layout, step=0, data_position=0, blend=self._settings.blend)
            replica.init()
            self._policy.hello(self._now_s, Hello(learner=name, incarnation=1))
            learner = Learner(
                replica=replica,
                batches=self._task.batches(shard, shards, seed, 0),
                step_s=step_s,
                epoch=self._policy.membership.last_epoch,
                snapshot=replica.snapshot(),
            )
            self._learners[learner.epoch] = learner
            # phases differ, as those of separate machines do
            self._later(step_s * (1 + chance.random()), partial(self._step, learner))
        seeder = self._learners[self._policy.seeder or 0]
        for index, values in enumerate(seeder.replica.bases()):
            self._syncer_state.take_initial(index, encode(values, Codec.F32))
        self._syncer_state.begin()
        for publication in self._syncer_state.first_publications():
            self._syncer_state.published.put(publication)
        self._syncer_state.snapshot(committed_tokens=0.0, round_=0)
        self._follow(self._policy.seeded(self._now_s, seeder.epoch))
        for learner in self._learners.values():
            self._adopt(learner)

    # ------------------------------------------------------------ learners

    def _step(self, learner: Learner) -> None:
        """End a step, report it, answer what was asked, adopt, begin the next one."""
        run_now(learner.replica.step(next(learner.batches)))
        self._report(learner)
        self._go_on(learner)

    def _report(self, learner: Learner) -> None:
        learner.snapshot = learner.replica.snapshot()
        counters = replace(learner.replica.counters, step_s=learner.step_s)
        report = syncer_messages.progress(learner_messages.progress(counters))
        self._follow(self._policy.progress(self._now_s, learner.epoch, report))
        pulls, learner.pulls = learner.pulls, []
        for pull in pulls:
            self._answer(learner, pull)

    def _go_on(self, learner: Learner) -> None:
        """Adopt what has arrived and begin the next step, unless a round must be waited for."""
        self._adopt(learner)
        held, limit = learner.replica.counters, self._settings.steps_before_wait
        was_waiting = learner.is_waiting
        learner.is_waiting = limit is not None and held.c_steps(held.oldest) >= limit
        if not learner.is_waiting:
            self._later(learner.step_s, partial(self._step, learner))
        elif was_waiting:
            self._report(learner)  # of what it has adopted

    def _adopt(self, learner: Learner) -> None:
        for adoption in learner.arrived.values():
            learner.replica.adopt(adoption)
        learner.arrived.clear()

    def _answer(self, learner: Learner, pull: pb.Pull) -> None:
        """Push the newest snapshot's work once it is based on the version that is asked for."""
        held = learner.snapshot.counters
        fragment = held.fragments[pull.fragment]
        if fragment.version < pull.base_version:
            learner.pulls.append(pull)
            return
        if fragment.version > pull.base_version or not held.c_steps(pull.fragment):
            declined = learner_messages.declined(held, pull, self._codec)
            offer = syncer_messages.offer(declined)
            self._later(0.0, lambda: self._policy.decline(self._now_s, learner.epoch, offer))
            return
        push = learner_messages.push(held, pull, self._codec)
        payload = encode(np.asarray(learner.snapshot.delta(pull.fragment)), self._codec)
        self._later(self._speeds.sync_s / 2, partial(self._receive, learner.epoch, push, payload))

    # ------------------------------------------------------------ syncer

    def _receive(self, epoch: int, push: pb.Push, payload: memoryview) -> None:
        """Take a push, unless its header says that it comes too late."""
        offer = syncer_messages.offer(push)
        if self._policy.offer(epoch, offer) is not None:
            self._policy.reject_answer(self._now_s, epoch, offer.round)
            return
        pushes, fragment = self._syncer_state.pushes, self._layout.fragments[push.fragment]
        pushes.keep(push.round, epoch, pushes.examine(fragment, push.codec, payload))
        self._policy.accept(self._now_s, epoch, offer)

    def _follow(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Pull():
                    asked = pb.Pull(
                        round=action.round,
                        fragment=action.fragment,
                        base_version=action.base_version,
                    )
                    for epoch in action.epochs:
                        self._answer(self._learners[epoch], asked)
                case Merge():
                    self._merge(action)
                case Abandon():
                    self._syncer_state.pushes.forget(action.round)
                case SendAll():
                    for publication in self._syncer_state.published:
                        self._deliver(action.receiver, publication)
                case Stop():
                    self._is_over = True
                case Welcome():
                    raise RuntimeError(f"only the first learners join here, not {action.member}")
                case _:
                    raise RuntimeError(f"this can only follow a fault: {action}")

    def _merge(self, action: Merge) -> None:
        given, index = self._syncer_state.pushes.of(action), action.fragment
        line = commit_record(action, self._policy, self._now_s, usual=given.median)
        state, cosines = self._syncer_state.merge(index, given)
        compared = tuple(replace(one, cosine=cosines[one.epoch]) for one in action.contributions)
        self._syncer_state.store(replace(line, contributors=compared), state)
        publication = self._syncer_state.publication(
            index, version=line.version, round_=action.round
        )
        self._syncer_state.published.put(publication, action.contributions)
        self._policy.rounds.published(self._now_s, action)
        self._merges.append(replace(action, contributions=compared))
        self._bounded += sum(excess is not None for excess in given.excesses)
        tokens = action.fragment_tokens / self._settings.fragments
        self._syncer_state.snapshot(committed_tokens=tokens, round_=action.round)
        for member in self._policy.membership.members:
            self._later(self._speeds.sync_s / 2, partial(self._deliver, member, publication))

    def _deliver(self, member: Member, publication: Publication) -> None:
        """Leave a version for the learner to adopt at its next step boundary."""
        index = publication.fragment
        size, codec = self._layout.fragments[index].size, Codec(publication.codec)
        learner = self._learners[member.epoch]
        learner.arrived[index] = Adoption(
            fragment=index,
            version=publication.version,
            committed_tokens=self._syncer_state.published.committed[
                member.learner, member.incarnation, index
            ],
            digest=publication.digest,
            values=decode(publication.payload, size, codec),
        )
        if learner.is_waiting:
            self._go_on(learner)

    # ------------------------------------------------------------ time and result

    def _later(self, after_s: float, happen: Callable[[], object]) -> None:
        self._ordered += 1  # of two events at one time, the one that was planned first
        heapq.heappush(self._events, (self._now_s + after_s, self._ordered, happen))

    def _measured(self) -> Measured:
        held = [learner.replica.counters for learner in self._learners.values()]
        trained = sum(counters.tokens for counters in held)
        lost = [fragment.discarded for counters in held for fragment in counters.fragments]
        return Measured(
            virtual_s=self._now_s,
            steps=tuple(counters.step for counters in held),
            trained_tokens=trained,
            committed_tokens=self._policy.committed_tokens,
            discarded=sum(lost) / self._settings.fragments / trained,
            merges=tuple(self._merges),
            bounded=self._bounded,
            losses=tuple(self._losses()),
        )

    def _losses(self) -> Iterator[tuple[int, float]]:
        for path in snapshot_paths(self._snapshots):
            snapshot = read_snapshot(path)
            params = assembled(self._task, snapshot.tensors)
            yield snapshot.committed_tokens, self._task.evaluate(params)


def decoupled(
    task: Task,
    inner: Inner,
    settings: Settings,
    speeds: Speeds | None = None,
    *,
    seed: int,
    first: type[Replica] = Replica,
) -> Measured:
    """Run one training in a temporary folder. `speeds`: equal ones by default."""
    equal = Speeds.equal(len(settings.learners), overlap=settings.overlap)
    with TemporaryDirectory(prefix="chaoslab-one-process-") as folder:
        return OneProcess(
            task, inner, settings, speeds or equal,
            seed=seed, directory=Path(folder), first=first,
        ).run()  # fmt: skip


def data_parallel(task: Task, inner: Inner, *, learners: int, steps: int, seed: int) -> Params:
    """Parameters after `steps` steps on the batches of all learners together."""
    streams = [task.batches(shard, learners, seed, 0) for shard in range(learners)]
    state = inner.init(seed)
    for _ in range(steps):
        batches = [next(stream) for stream in streams]
        state, loss = inner.step(
            state, jax.tree.map(lambda *parts: np.concatenate(parts), *batches)
        )
        loss.block_until_ready()  # so that no queue of steps builds up
    return state.params
