"""The training thread against a syncer played by hand: joining from every source, and the end.

A real learner with a real model, small enough to compile in a blink, in a thread of the test.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.learner.exchange import Adoption, Inbox
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.learner.joining import JoinRefused
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.payloads import ArrayPayloads
from chaoslab.diloco.learner.replica import Replica
from chaoslab.diloco.learner.training_thread import Learner, Shard
from chaoslab.diloco.model.codec import digest
from chaoslab.diloco.model.fragments import FloatArray, Layout
from chaoslab.diloco.model.load import load
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.settings import Settings, learning_rate
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from tests.diloco.hand_learner import Told
from tests.diloco.hand_syncer import PATIENCE_S, HandSyncer
from tests.diloco.known import TOKENS, WHOSE
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
RULES = Settings(learners=("learner-0",), fragments=2, compression="f32")


class Model:
    """The example of the documentation, its fragments, and values for them."""

    def __init__(self, text: Path) -> None:
        self.task = load("next_byte:make", data=str(text), batch=8, sequence=8)
        self.inner = Inner(self.task)
        self.layout = Layout.balance(self.inner.specs, RULES.fragments)
        self.sizes = [fragment.size for fragment in self.layout.fragments]

    def checkpoint(self, value: float) -> bytes:
        """What a donor gives that holds `value` everywhere."""
        self.inner.cut(self.layout)
        state = self.inner.init(0)
        for index in range(len(self.sizes)):
            state = self.inner.adopt(state, index, self.all_of(index, value))
        return self.inner.pack(state)

    def trained(self) -> bytes:
        """What a donor gives that has made two steps."""
        self.inner.cut(self.layout)
        state, batches = self.inner.init(0), self.task.batches(0, 1, 5, 0)
        for batch in islice(batches, 2):
            state, _ = self.inner.step(state, batch)
        return self.inner.pack(state)

    def all_of(self, fragment: int, value: float) -> FloatArray:
        return np.full(self.sizes[fragment], value, np.float32)

    def version(self, version: int, fragment: int, value: float) -> Adoption:
        """What arrives of a version that holds `value` everywhere and no work of the learner."""
        values = self.all_of(fragment, value)
        return Adoption(
            fragment=fragment, version=version, committed_tokens=0, digest=digest(values),
            values=values,
        )  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_bytes(bytes(range(32, 127)) * 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield Model(text)


class WatchedMessenger(Messenger):
    """One that remembers which fragments the training thread has taken."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.taken: set[int] = set()

    def take(self) -> Inbox:
        inbox = super().take()
        self.taken |= inbox.adoptions.keys()
        return inbox


class RunningLearner:
    """A learner in a thread, what it printed, and how it ended."""

    def __init__(self, model: Model, syncer: HandSyncer, folder: Path) -> None:
        told = Told()
        self.of, self.waits_for = told.of, told.wait
        self.error: JoinRefused | None = None
        self.pace = Pace()
        self.messenger = WatchedMessenger(
            lambda: Connection(syncer.address, token=TOKENS.of("learner-0")),
            whose=WHOSE, emit=told.emit,
            payloads=ArrayPayloads(model.inner.specs),
        )  # fmt: skip
        self.learner = Learner(
            Replica(model.inner, model.task.tokens_per_batch, self.pace, seed=5), self.messenger,
            store=LearnerStore(
                folder, WHOSE, durable=False, emit=told.emit,
                moments_digest=model.inner.moments_digest,
            ),
            shard=Shard(0, partial(model.task.batches, 0, 1, 5)),
            save_every_s=3600.0, emit=told.emit,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="training", daemon=True)
        self.messenger.start()

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            run_now(self.learner.run())
        except JoinRefused as error:
            self.error = error
        finally:
            self.messenger.leave("the test is over")

    def has_untaken(self, fragments: int) -> bool:
        """Whether the messenger holds that many fragments that nobody has taken."""
        return len(self.messenger._inbox.adoptions) >= fragments

    def ended(self) -> JoinRefused | None:
        """Wait until it has left; what it left with."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "it did not leave"
        return self.error

    def leave(self) -> None:
        self.learner.ask_to_leave()
        self.ended()


@pytest.fixture
def syncer(model: Model) -> Iterator[HandSyncer]:
    with HandSyncer(rules=RULES, sizes=model.sizes) as syncer:
        yield syncer


@pytest.fixture
def learner(model: Model, syncer: HandSyncer, tmp_path: Path) -> RunningLearner:
    """Its messenger talks already; the training thread waits for `start`."""
    return RunningLearner(model, syncer, tmp_path)


def give_checkpoint(
    syncer: HandSyncer, content: bytes, versions: Sequence[int], step: int = 300
) -> None:
    header = pb.Checkpoint(
        request=1, versions=versions, step=step, data_position=40, donor="learner-1"
    )
    message = pb.ToLearner(epoch=syncer.epoch, checkpoint=header)
    syncer.hub.send_payload(syncer.session, message, content, key="checkpoint")


def end_training(syncer: HandSyncer, learner: RunningLearner, versions: Sequence[int]) -> Any:
    """Say that training has ended; the learner's final account."""
    syncer.say(stop=pb.Stop(reason="the test is over", versions=versions))
    final = learner.waits_for(Kind.LEARNER_FINAL)
    syncer.hear("goodbye")
    assert learner.ended() is None
    return final


def join(syncer: HandSyncer, learner: RunningLearner) -> None:
    """Start it and let it in, with two fragments of version 3."""
    learner.start()
    syncer.admit()
    for fragment in range(2):
        syncer.publish(fragment, 3)


# ---------------------------------------------------------------- joining


def test_a_learner_joins_although_everything_came_while_it_was_busy(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    """Welcome and fragments lie in the inbox together when the training thread first looks."""
    syncer.admit(data_position=12, step=70)
    syncer.pull(0, 3)  # it has nothing to say to that yet
    sent = [syncer.publish(fragment, 3) for fragment in range(2)]
    wait_until(lambda: learner.has_untaken(2))
    learner.start()
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert (joined["source"], joined["versions"]) == ("syncer", {"0": 3, "1": 3})
    assert (joined["step"], joined["data_position"]) == (70, 12)
    final = end_training(syncer, learner, [3, 3])
    assert final["digests"] == {str(index): digest(values) for index, values in enumerate(sent)}


def test_the_first_learner_hands_in_its_initial_parameters(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    learner.start()
    syncer.admit("initial")
    for fragment, size in enumerate(model.sizes):
        push, payload = syncer.hear("push")
        assert (push.fragment, push.base_version) == (fragment, -1)
        assert payload is not None
        syncer.publish(fragment, 0, np.frombuffer(payload, np.float32))
        assert len(payload) == 4 * size
    assert learner.waits_for(Kind.LEARNER_JOINED)["source"] == "initial"
    learner.leave()


def test_a_rejoiner_continues_from_its_donor_and_adopts_what_is_newer(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    learner.start()
    syncer.admit("donor", donor="learner-1", data_position=12, step=290)
    newer = syncer.publish(1, 8)  # merged while the checkpoint was on its way
    give_checkpoint(syncer, model.checkpoint(0.25), versions=[4, 7])
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert (joined["source"], joined["donor"]) == ("donor", "learner-1")
    assert joined["versions"] == {"0": 4, "1": 8}
    assert (joined["step"], joined["data_position"]) == (300, 12), "its own place in its own data"
    final = end_training(syncer, learner, [4, 8])
    assert final["digests"] == {"0": digest(model.all_of(0, 0.25)), "1": digest(newer)}


def test_a_rejoiner_says_with_what_it_goes_on(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    """Its shard; the learning rate and the moments that its donor gave."""
    learner.start()
    syncer.admit("donor", donor="learner-1", step=290)
    given = model.trained()
    give_checkpoint(syncer, given, versions=[4, 7])
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert joined["shard"] == 0
    assert joined["moments"] == model.inner.moments_digest(given)
    second = model.inner.rate(model.inner.unpack(given))
    assert joined["learning_rate"] == second == 0.012 * 2 / 50
    learner.leave()
    last = learner.of(Kind.LEARNER_STEP)[-1]
    assert last["learning_rate"] == learning_rate(
        2 + last["step"] - 300, lr=0.012, warmup_steps=50, decay_steps=5000, final_share=0.1
    )


def test_without_a_donor_a_rejoiner_goes_on_with_the_moments_of_its_own_checkpoint(
    syncer: HandSyncer, learner: RunningLearner, model: Model, tmp_path: Path
) -> None:
    own = model.trained()
    run_now(LearnerStore(tmp_path, WHOSE, durable=False).save(step=2, data_position=2, payload=own))
    learner.start()
    syncer.admit("syncer", step=50)
    for fragment in range(2):
        syncer.publish(fragment, 9)
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    (found,) = learner.of(Kind.CHECKPOINT_FOUND)
    assert joined["moments"] == found["moments"] == model.inner.moments_digest(own)
    assert joined["learning_rate"] == 0.012, "that of the step, not of the checkpoint"
    learner.leave()


def test_an_older_fragment_never_overwrites_what_the_donor_gave(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    learner.start()
    syncer.admit("donor", donor="learner-1")
    syncer.publish(0, 2)
    give_checkpoint(syncer, model.checkpoint(0.25), versions=[4, 7])
    assert learner.waits_for(Kind.LEARNER_JOINED)["versions"] == {"0": 4, "1": 7}
    final = end_training(syncer, learner, [4, 7])
    assert final["digests"]["0"] == digest(model.all_of(0, 0.25))


def test_a_rejoiner_waits_for_its_donor_whatever_else_arrives(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    learner.start()
    syncer.admit("donor", donor="learner-1")
    for fragment in range(2):
        syncer.publish(fragment, 9)
    wait_until(lambda: learner.messenger.taken == {0, 1})
    give_checkpoint(syncer, model.checkpoint(0.25), versions=[4, 7])
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert (joined["source"], joined["donor"]) == ("donor", "learner-1")
    assert joined["versions"] == {"0": 9, "1": 9}
    learner.leave()


def test_a_rejoiner_whose_donors_are_all_gone_takes_the_syncers_fragments(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    learner.start()
    syncer.admit("donor", donor="learner-1", step=70)
    syncer.publish(0, 9)
    wait_until(lambda: 0 in learner.messenger.taken)
    syncer.welcome("syncer", is_again=True, step=90)
    syncer.publish(1, 9)
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert (joined["source"], joined["donor"], joined["epoch"]) == ("syncer", None, 1)
    assert joined["step"] == 90
    learner.leave()


def test_a_checkpoint_that_came_before_another_welcome_is_not_used(
    syncer: HandSyncer, learner: RunningLearner, model: Model
) -> None:
    """It was of a membership that ended before the learner could look at it."""
    syncer.admit("donor", donor="learner-1")
    give_checkpoint(syncer, model.checkpoint(0.25), versions=[4, 7])
    wait_until(lambda: learner.messenger._inbox.handover is not None)
    syncer.welcome("syncer", is_again=True)
    for fragment in range(2):
        syncer.publish(fragment, 9)
    wait_until(lambda: learner.has_untaken(2))
    learner.start()
    assert learner.waits_for(Kind.LEARNER_JOINED)["source"] == "syncer"
    learner.leave()


def test_a_learner_that_is_cut_off_while_it_joins_joins_again(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    learner.start()
    syncer.admit("donor", donor="learner-1")
    syncer.publish(0, 5)
    syncer.fence()
    syncer.admit("syncer")
    for fragment in range(2):
        syncer.publish(fragment, 6)
    joined = learner.waits_for(Kind.LEARNER_JOINED)
    assert joined["versions"] == {"0": 6, "1": 6}
    assert joined["epoch"] == 2
    learner.leave()


def delta(replica: Replica, fragment: int) -> FloatArray:
    return np.asarray(replica.snapshot().delta(fragment))


@pytest.mark.parametrize("blend", [0.0, 0.5])
def test_a_learner_keeps_a_share_of_the_work_since_its_last_adoption_and_counts_as_if_not(
    model: Model, blend: float
) -> None:
    replica = Replica(model.inner, model.task.tokens_per_batch, Pace(), seed=5)
    replica.cut(model.layout, step=70, data_position=0, blend=blend)
    replica.init()
    for fragment in range(2):
        replica.adopt(model.version(0, fragment, 0.125))
        assert not delta(replica, fragment).any(), "it had no work"
    run_now(replica.step(next(model.task.batches(0, 1, 5, 0))))
    own = np.float32(0.125) - delta(replica, 0)
    said = replica.adopt(model.version(1, 0, 0.25))
    assert said is not None
    assert said["discarded_tokens"] == model.task.tokens_per_batch
    kept = np.float32(0.25) - (np.float32(blend) * own + np.float32((1 - blend) * 0.25))
    np.testing.assert_allclose(delta(replica, 0), kept, rtol=1e-6, atol=1e-7)
    assert delta(replica, 0).any() == (blend > 0)
    replica.adopt(model.version(2, 0, 0.5))
    assert not delta(replica, 0).any(), "without another step there is nothing to keep"
    replica.forget_own_work()
    values = [model.all_of(0, 0.5), model.all_of(1, 0.125)]
    assert replica.final(WHOSE).digests == {str(p): digest(of) for p, of in enumerate(values)}


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_without_a_donor_the_learning_rate_is_that_of_the_step_it_joins_at(
    model: Model, has_checkpoint: bool
) -> None:
    """One step from step 0, where the warm-up begins, and one from step 70, where it is over."""
    moved = []
    for step in (0, 70):
        replica = Replica(model.inner, model.task.tokens_per_batch, Pace(), seed=5)
        replica.cut(model.layout, step=step, data_position=0)
        replica.init()
        if has_checkpoint:
            replica.recall(model.checkpoint(0.25), data_position=0)
        run_now(replica.step(next(model.task.batches(0, 1, 5, 0))))
        moved.append(max(np.abs(delta(replica, p)).max() for p in range(2)))
    assert moved[0] == 0
    assert moved[1] == pytest.approx(InnerSettings().lr, rel=0.5)  # with weight decay


# ---------------------------------------------------------------- while it trains


def test_adopting_overwrites_and_books_its_own_work(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    join(syncer, learner)
    learner.waits_for(Kind.LEARNER_STEP)
    syncer.publish(0, 4, committed=16)
    final = end_training(syncer, learner, [4, 3])
    booked = final["committed"]["0"] + final["discarded"]["0"] + final["in_flight"]["0"]
    assert final["committed"] == {"0": 16, "1": 0}
    assert booked == final["tokens"] == final["in_flight"]["1"]
    adopted = learner.waits_for(Kind.LEARNER_ADOPTED, version=4)
    assert adopted["committed_tokens"] == 16


def test_a_learner_goes_on_stepping_while_it_has_no_syncer(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    join(syncer, learner)
    learner.waits_for(Kind.LEARNER_STEP)
    syncer.hub.close(syncer.session)
    syncer.hear_end()
    again = syncer.admit("resumed")
    first = again.step
    syncer.hub.close(syncer.session)
    syncer.hear_end()
    assert syncer.admit("resumed").step > first
    assert list(again.versions) == [3, 3]
    learner.leave()


# ---------------------------------------------------------------- a synchronous one waits


@pytest.fixture
def waiting(model: Model, tmp_path: Path) -> Iterator[tuple[HandSyncer, RunningLearner]]:
    """A learner that waits at four steps past two fragments of version 3."""
    rules = replace(RULES, blocking=True, sync_every=4)
    with HandSyncer(rules=rules, sizes=model.sizes) as syncer:
        learner = RunningLearner(model, syncer, tmp_path)
        join(syncer, learner)
        said = learner.waits_for(Kind.LEARNER_WAITING)
        assert (said["step"], said["c_steps"], said["fragment"]) == (4, 4, 0)
        yield syncer, learner


def test_a_learner_that_waits_pushes_adopts_and_steps_on(
    waiting: tuple[HandSyncer, RunningLearner],
) -> None:
    syncer, learner = waiting
    syncer.pull(0, 3)
    push, _ = syncer.hear("push")
    assert push.c_steps == 4
    syncer.publish(0, 4)
    progress, _ = syncer.hear("progress")
    while list(progress.versions) != [4, 3]:  # it reports what it adopted while it waits
        progress, _ = syncer.hear("progress")
    assert progress.step == 4, "the other fragment holds it still"
    syncer.publish(1, 4)
    learner.waits_for(Kind.LEARNER_WAITING, step=8)
    learner.leave()
    assert learner.waits_for(Kind.LEARNER_LEFT)["step"] == 8


@pytest.mark.deep
def test_a_wait_for_a_round_loses_no_period(waiting: tuple[HandSyncer, RunningLearner]) -> None:
    syncer, learner = waiting
    learner.pace.apply_pace_hook({"step_s": 0.2})
    for version in (4, 5):  # four steps each, and a wait of a quarter of a second after them
        syncer.publish(0, version)
        syncer.publish(1, version)
        learner.waits_for(Kind.LEARNER_WAITING, step=4 * (version - 2))
    learner.leave()
    steps = learner.of(Kind.LEARNER_STEP)
    assert {data["period_s"] for data in steps if data["step"] > 4} == {0.2}
    assert sum(data["overruns"] for data in steps) == learner.pace.overruns == 0


# ---------------------------------------------------------------- the end


def test_a_learner_that_is_refused_ends_with_the_reason(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    learner.start()
    syncer.hear("hello")
    refused = pb.ToLearner(refused=pb.Refused(reason="120 rounds"))
    syncer.hub.close(syncer.session, refused)
    ended = learner.ended()
    assert isinstance(ended, JoinRefused)
    assert str(ended) == "120 rounds"


def test_a_learner_that_comes_after_the_end_leaves(
    syncer: HandSyncer, learner: RunningLearner
) -> None:
    learner.start()
    syncer.hear("hello")
    syncer.hub.close(syncer.session, pb.ToLearner(stop=pb.Stop(reason="120 rounds")))
    assert learner.ended() is None
    left = learner.waits_for(Kind.LEARNER_LEFT)
    assert (left["step"], left["reason"]) == (0, "stopped")


def test_asked_to_leave_before_it_joined_it_says_so_and_not_that_training_stopped(
    learner: RunningLearner,
) -> None:
    learner.start()
    learner.leave()
    assert learner.error is None
    left = learner.waits_for(Kind.LEARNER_LEFT)
    assert (left["step"], left["reason"]) == (0, "asked")


def test_who_is_asked_to_leave_keeps_a_checkpoint_and_says_goodbye(
    syncer: HandSyncer, learner: RunningLearner, tmp_path: Path
) -> None:
    join(syncer, learner)
    learner.waits_for(Kind.LEARNER_STEP)
    learner.leave()
    goodbye, _ = syncer.hear("goodbye")
    assert goodbye.reason == "asked"
    left = learner.waits_for(Kind.LEARNER_LEFT)
    newest = LearnerStore(tmp_path, WHOSE).load_newest()
    assert newest is not None
    assert newest.step == left["step"]
