"""The learner's second thread against a syncer played by hand: what is said, held back, repeated.

The test is the training thread: it leaves snapshots and takes what has arrived.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.learner.counters import Counters, FragmentCounters
from chaoslab.diloco.learner.exchange import Inbox, Snapshot
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.payloads import ArrayPayloads
from chaoslab.diloco.model.codec import decode
from chaoslab.diloco.model.encodings import Codec
from chaoslab.diloco.model.fragments import FloatArray, specs_from_json
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from tests.diloco.hand_learner import Told
from tests.diloco.hand_syncer import PATIENCE_S, SIZES, SPECS, HandSyncer
from tests.diloco.known import TOKENS


class Trainer:
    """The training thread's end of a messenger, and what the messenger told the world."""

    def __init__(self, syncer: HandSyncer, *, incarnation: int = 1) -> None:
        self.of = (told := Told()).of
        self.connections: list[Connection] = []
        self.inbox = Inbox()
        self.messenger = Messenger(
            lambda: self._connect(syncer.address),
            whose={"learner": "learner-0", "incarnation": incarnation},
            payloads=ArrayPayloads(SPECS),
            emit=told.emit,
        )
        self.messenger.start()

    def _connect(self, address: str) -> Connection:
        self.connections.append(Connection(address, token=TOKENS.of("learner-0")))
        return self.connections[-1]

    def until(self, is_there: Callable[[Inbox], object]) -> Inbox:
        """Wait as the training thread does until that has arrived; everything so far."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_there(self.inbox):
            assert time.monotonic() < deadline_s, f"it never came; there is {self.inbox}"
            run_now(self.messenger.wait(0.2))
            self.inbox.update(self.messenger.take())
        return self.inbox

    def boundary(self, step: int, versions: tuple[int, ...] = (0, 0), **more: Any) -> None:
        """Leave a snapshot: 10 tokens a step, `since` steps since each adoption."""
        since = more.get("since", (step, step))
        self.messenger.boundary(
            Snapshot(
                Counters(
                    step=step,
                    tokens=10 * step,
                    data_position=100 + step,
                    loss=1.5,
                    step_s=0.01,
                    fragments=tuple(
                        FragmentCounters(version, step - steps, 10 * (step - steps))
                        for version, steps in zip(versions, since, strict=True)
                    ),
                ),
                delta=more.get("delta", some_delta),
                pack=more.get("pack", lambda: b"a checkpoint"),
                moments_digest=lambda payload: f"moments of {payload.decode()}",
            )
        )


def some_delta(fragment: int) -> FloatArray:
    return np.linspace(0, 1.5, SIZES[fragment], dtype=np.float32)


@pytest.fixture
def trainer(syncer: HandSyncer) -> Iterator[Trainer]:
    trainer = Trainer(syncer, incarnation=3)
    yield trainer
    trainer.messenger.leave("the test is over")


@pytest.fixture
def member(syncer: HandSyncer, trainer: Trainer) -> Trainer:
    """Joined, holding version 0 of both fragments."""
    syncer.admit()
    for fragment in range(2):
        syncer.publish(fragment, 0)
    trainer.until(lambda inbox: inbox.joined and len(inbox.adoptions) == 2)
    trainer.boundary(1)
    return trainer


def everything_was_understood(syncer: HandSyncer, trainer: Trainer) -> None:
    """All messages sent so far have been taken in: this one follows them and has arrived."""
    trainer.inbox.adoptions.pop(1, None)
    syncer.publish(1, 0)
    trainer.until(lambda inbox: 1 in inbox.adoptions)


# ---------------------------------------------------------------- pulls


def test_a_pull_is_answered_from_the_newest_snapshot(syncer: HandSyncer, member: Trainer) -> None:
    member.boundary(7, since=(7, 3))
    syncer.pull(1, 0, number=12)
    push, payload = syncer.hear("push")
    assert (push.round, push.fragment, push.base_version, push.step) == (12, 1, 0, 7)
    assert (push.c_steps, push.c_tokens, push.tokens_from, push.tokens_to) == (3, 30, 40, 70)
    assert payload == some_delta(1).tobytes()
    (told,) = member.of(Kind.LEARNER_PUSHED)
    assert (told["round"], told["tokens_from"], told["tokens_to"]) == (12, 40, 70)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_push_is_encoded_as_the_rules_say_and_initial_parameters_go_in_full_precision(
    syncer: HandSyncer, trainer: Trainer, codec: Codec
) -> None:
    syncer.rules = replace(syncer.rules, compression=codec.value)
    syncer.admit("initial")
    trainer.until(lambda inbox: inbox.joined)
    trainer.messenger.send_initial([some_delta(fragment) for fragment in range(2)])
    for fragment in range(2):
        push, payload = syncer.hear("push")
        assert (push.fragment, push.base_version, push.codec) == (fragment, -1, "f32")
        assert payload == some_delta(fragment).tobytes()
    trainer.boundary(5)
    syncer.pull(0, 0)
    push, payload = syncer.hear("push")
    assert push.codec == codec.value
    halves = 1 / 3 if codec is Codec.E3M0 else 0.0  # each of its values is twice the one before
    decoded = decode(payload or b"", SIZES[0], codec)
    np.testing.assert_allclose(decoded, some_delta(0), atol=0.15, rtol=halves)


def test_a_pull_waits_until_the_learner_holds_its_base_version(
    syncer: HandSyncer, member: Trainer
) -> None:
    syncer.pull(0, 1, number=2)
    everything_was_understood(syncer, member)
    for step in (2, 3, 4):
        member.boundary(step)
    assert member.of(Kind.LEARNER_PUSHED) == []
    member.boundary(5, (1, 0), since=(1, 5))
    push, _ = syncer.hear("push")
    assert (push.round, push.base_version, push.step, push.c_steps) == (2, 1, 5, 1)
    member.boundary(6, (1, 0), since=(2, 6))
    assert len(member.of(Kind.LEARNER_PUSHED)) == 1, "answered once"


@pytest.mark.parametrize(
    ("held", "pulled"), [(3, 2), (1, 1)], ids=["it has passed that version", "without a step on it"]
)
def test_a_pull_to_which_there_is_nothing_to_say_is_declined(
    syncer: HandSyncer, member: Trainer, held: int, pulled: int
) -> None:
    member.boundary(5, (held, 0), since=(0, 5))
    syncer.pull(0, pulled, number=9)
    push, payload = syncer.hear("push")
    assert (push.round, push.fragment, push.c_steps, push.c_tokens) == (9, 0, 0, 0)
    assert payload == b""
    assert member.of(Kind.LEARNER_PUSHED) == [], "there is nothing in it"


def test_a_newer_pull_of_a_fragment_takes_the_place_of_a_waiting_one(
    syncer: HandSyncer, member: Trainer
) -> None:
    syncer.pull(0, 1, number=2)
    syncer.pull(0, 2, number=5)
    everything_was_understood(syncer, member)
    member.boundary(9, (2, 0), since=(2, 9))
    push, _ = syncer.hear("push")
    assert (push.round, push.base_version) == (5, 2)
    assert len(member.of(Kind.LEARNER_PUSHED)) == 1


def test_pulls_are_answered_while_the_training_thread_is_busy(
    syncer: HandSyncer, member: Trainer
) -> None:
    member.boundary(8)
    for number in range(1, 6):  # nobody calls boundary, wait or take meanwhile
        syncer.pull(0, 0, number=number)
        push, _ = syncer.hear("push")
        assert (push.round, push.step) == (number, 8)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"pull": pb.Pull(round=1, fragment=2, base_version=0)},
        {"checkpoint_request": pb.CheckpointRequest(request=1, versions=[0])},
        {"welcome": pb.Welcome(source="heaven", settings_json="{}")},
        {"welcome": pb.Welcome(source="syncer", settings_json='{"fragmints": 2}')},
        {"fragment": pb.Fragment(fragment=7, version=1, codec="f32")},
    ],
    ids=["no such fragment", "other versions", "no such source", "other rules", "no payload"],
)
def test_words_that_make_no_sense_end_the_stream_and_not_the_messenger(
    syncer: HandSyncer, member: Trainer, nonsense: dict[str, Any]
) -> None:
    syncer.say(**nonsense)
    syncer.hear_end()
    again = syncer.admit("resumed", meanwhile=lambda: member.boundary(2))
    assert again.step == 2, "it came back"


# ---------------------------------------------------------------- checkpoints


def given(syncer: HandSyncer) -> tuple[Any, bytes]:
    """The next checkpoint; that one is on its way is passed over."""
    while True:
        checkpoint, payload = syncer.hear("checkpoint")
        if payload is not None:
            return checkpoint, payload


def test_a_donor_says_that_its_checkpoint_is_on_its_way(
    syncer: HandSyncer, member: Trainer
) -> None:
    syncer.say(checkpoint_request=pb.CheckpointRequest(request=5, versions=[1, 1]))
    everything_was_understood(syncer, member)
    member.boundary(9, (1, 1), pack=lambda: bytes(1 << 16))
    (begun, nothing), (checkpoint, payload) = (syncer.hear("checkpoint") for _ in range(2))
    assert (begun.request, nothing) == (checkpoint.request, None)
    assert payload == bytes(1 << 16)


def test_a_checkpoint_is_given_only_when_its_versions_have_been_seen(
    syncer: HandSyncer, member: Trainer
) -> None:
    packed = []

    def pack() -> bytes:
        packed.append(1)
        return b"the state at step 9"

    syncer.say(checkpoint_request=pb.CheckpointRequest(request=5, versions=[2, 1]))
    everything_was_understood(syncer, member)
    member.boundary(7, (2, 0), pack=pack)
    member.boundary(8, (1, 1), pack=pack)
    assert packed == []
    member.boundary(9, (2, 3), pack=pack)
    checkpoint, payload = given(syncer)
    assert (checkpoint.request, checkpoint.step, checkpoint.donor) == (5, 9, "learner-0")
    assert (list(checkpoint.versions), checkpoint.data_position) == ([2, 3], 109)
    assert payload == b"the state at step 9"
    (told,) = member.of(Kind.CHECKPOINT_GIVEN)
    assert (told["step"], told["moments"]) == (9, "moments of the state at step 9")
    member.boundary(10, (2, 3), pack=pack)
    assert len(packed) == 1


def test_everybody_who_asks_at_once_is_given_a_checkpoint(
    syncer: HandSyncer, member: Trainer
) -> None:
    for request in (5, 6, 7):
        syncer.say(checkpoint_request=pb.CheckpointRequest(request=request, versions=[2, 3]))
    everything_was_understood(syncer, member)
    member.boundary(9, (2, 3), pack=lambda: b"the state at step 9")
    all_given = [given(syncer) for _ in range(3)]
    assert sorted(checkpoint.request for checkpoint, _ in all_given) == [5, 6, 7]
    assert {payload for _, payload in all_given} == {b"the state at step 9"}


# ---------------------------------------------------------------- signs of life


def test_every_step_is_reported_and_then_repeated_as_a_heartbeat(
    syncer: HandSyncer, member: Trainer
) -> None:
    member.boundary(41, (2, 5), since=(4, 8))
    while True:
        progress, _ = syncer.hear("progress")
        if progress.step == 41:
            break
    assert (progress.tokens, progress.data_position) == (410, 141)
    assert (list(progress.c_steps), list(progress.c_tokens)) == ([4, 8], [40, 80])
    assert list(progress.versions) == [2, 5]
    again, _ = syncer.hear("progress")  # nobody stepped
    assert again == progress


def test_after_a_broken_stream_it_says_hello_with_what_it_holds(
    syncer: HandSyncer, trainer: Trainer
) -> None:
    first, _ = syncer.hear("hello")
    assert (first.learner, first.incarnation) == ("learner-0", 3)
    assert specs_from_json(first.specs_json) == SPECS
    assert (list(first.versions), first.step, first.tokens) == ([], 0, 0)
    syncer.welcome()
    trainer.until(lambda inbox: inbox.joined)
    trainer.boundary(30, (4, 6))
    syncer.hub.close(syncer.session)
    syncer.hear_end()
    again, _ = syncer.hear("hello", meanwhile=lambda: trainer.boundary(31, (4, 6)))
    assert (list(again.versions), again.step) == ([4, 6], 31)
    assert (again.tokens, again.data_position) == (310, 131)
    assert (again.incarnation, again.process) == (3, first.process)
    assert first.process > 0
    syncer.welcome("resumed")
    trainer.until(lambda inbox: inbox.joined and inbox.joined.epoch == 2)
    assert [told["epoch"] for told in trainer.of(Kind.LEARNER_FENCED)] == [1]


def test_a_fenced_learner_says_why_and_forgets_the_pulls_of_that_membership(
    syncer: HandSyncer, member: Trainer
) -> None:
    syncer.pull(0, 1, number=2)
    everything_was_understood(syncer, member)
    syncer.fence("no_progress")
    syncer.hear_end()
    syncer.admit("resumed", meanwhile=lambda: member.boundary(2))
    member.until(lambda inbox: inbox.joined and inbox.joined.epoch == 2)
    (fenced,) = member.of(Kind.LEARNER_FENCED)
    assert (fenced["epoch"], fenced["reason"]) == (1, "no_progress")
    member.boundary(3, (1, 0), since=(1, 3))
    assert member.of(Kind.LEARNER_PUSHED) == []


@pytest.mark.deep
def test_a_wedged_learner_does_not_join_again_until_its_training_thread_lives(
    syncer: HandSyncer, member: Trainer
) -> None:
    syncer.fence()
    syncer.hear_end()
    assert not syncer.opens_within(1.5), "the first try would come within 0.2 s"
    member.boundary(2)  # once is enough
    assert syncer.admit("resumed").step == 2


def test_a_learner_that_still_waits_for_its_parameters_is_alive(
    syncer: HandSyncer, trainer: Trainer
) -> None:
    syncer.admit()
    trainer.until(lambda inbox: inbox.joined)
    syncer.fence()
    syncer.hear_end()
    again = syncer.admit(meanwhile=lambda: run_now(trainer.messenger.wait(0.01)))
    assert list(again.versions) == []


# ---------------------------------------------------------------- the end


def test_who_leaves_says_goodbye_and_does_not_come_back(
    syncer: HandSyncer, member: Trainer
) -> None:
    (link,) = [one for one in threading.enumerate() if one.name == "link"]
    member.messenger.leave("asked")
    goodbye, _ = syncer.hear("goodbye")
    assert goodbye.reason == "asked"
    syncer.hear_end()
    link.join(PATIENCE_S)
    assert not link.is_alive(), "nobody is left who could dial"
