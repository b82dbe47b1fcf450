"""Strangers at a syncer without TLS: what they can take, keep busy, or make anybody believe."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from chaoslab.core.events import Kind
from chaoslab.diloco.model.fragments import specs_to_json
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.frames import frame_of
from chaoslab.diloco.wire.mailbox import Closed, Received
from chaoslab.diloco.wire.streams import METHOD, TOKEN_KEY, Limits
from tests.diloco.hand_learner import SPECS, HandLearner, RunningSyncer, joined, running_syncer
from tests.diloco.known import TOKENS
from tests.diloco.wire.test_streams import dialled, serving, taken, until

EVICTING = pb.FromLearner(
    hello=pb.Hello(learner="learner-0", incarnation=99, specs_json=specs_to_json(SPECS))
)


def goes_on(syncer: RunningSyncer, learner: HandLearner) -> None:
    """It is still a member, and asked for its work."""
    learner.pulled()
    assert not syncer.told.of(Kind.MEMBER_LEFT)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "no_token"),
        ("learner-0:guessed", "wrong_token"),
        (TOKENS.of("learner-0")[:-1], "wrong_token"),
        (TOKENS.of("learner-1").replace("learner-1", "learner-0"), "wrong_token"),
    ],
    ids=["none", "guessed", "cut", "another's under its name"],
)
def test_a_stranger_that_claims_a_higher_life_evicts_nobody(
    tmp_path: Path, token: str, reason: str
) -> None:
    with running_syncer(tmp_path) as syncer:
        honest = joined(syncer)
        with dialled(syncer.address, EVICTING, token=token) as stranger:
            assert "unauthenticated" in taken(stranger.arrivals, Closed).reason
        refused = syncer.told.wait(Kind.STREAM_REFUSED, reason=reason)
        assert str(refused["peer"]).startswith("ipv4:127.0.0.1:")
        assert (refused["claimed"], refused["known_as"]) == ("learner-0" if token else "", "")
        goes_on(syncer, honest)


PUSH = pb.FromLearner(push=pb.Push())


@pytest.mark.parametrize(
    ("say", "reason"),
    [
        (lambda eager: eager.send(EVICTING), "other_name"),
        (lambda eager: eager.send(pb.FromLearner(progress=pb.Progress(step=1))), "not_a_hello"),
        (lambda eager: eager.send_payload(PUSH, bytes(64 << 20), key=0), "garbled"),
    ],
    ids=["as another learner", "no hello", "much before a hello"],
)
def test_a_learner_that_does_not_begin_with_a_hello_of_its_own_is_refused(
    tmp_path: Path, say: Callable[[Connection], None], reason: str
) -> None:
    with running_syncer(tmp_path) as syncer:
        honest = joined(syncer)
        with dialled(syncer.address, None, token=TOKENS.of("learner-1")) as eager:
            say(eager)
            until(eager.arrivals, Closed)
        claimed = "learner-0" if reason == "other_name" else ""
        syncer.told.wait(Kind.STREAM_REFUSED, reason=reason, claimed=claimed, known_as="learner-1")
        assert not syncer.told.of(Kind.PUSH_REJECTED)
        goes_on(syncer, honest)


@contextlib.contextmanager
def silent_streams(
    address: str, count: int, metadata: list[tuple[str, bytes]]
) -> Iterator[list[grpc.Call]]:
    """Streams on which nothing is said, each by a connection of its own."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    own = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(address, options=own) for _ in range(count)]
    calls = [channel.stream_stream(METHOD)(nothing(), metadata=metadata) for channel in channels]
    yield calls
    over.set()
    for channel in channels:
        channel.close()


@pytest.mark.parametrize("learner", ["", "learner-1"], ids=["strangers", "a learner"])
def test_silent_streams_keep_no_learner_out(tmp_path: Path, learner: str) -> None:
    shown = [(TOKEN_KEY, TOKENS.of(learner).encode())] if learner else []
    limits = Limits(sessions_max=8, hello_s=1000.0)  # longer than the test may take
    with (
        running_syncer(tmp_path, limits=limits) as syncer,
        silent_streams(syncer.address, 20, shown) as calls,
    ):
        most = limits.sessions_per_learner_max if learner else 0
        while sum(call.is_active() for call in calls) > most:
            time.sleep(0.01)  # all others are ended by the syncer
        honest = joined(syncer)
        goes_on(syncer, honest)
        honest.close()
        syncer.told.wait(Kind.STREAM_REFUSED, reason="no_hello" if learner else "no_token")


def test_a_stream_without_a_hello_ends_in_time(tmp_path: Path) -> None:
    shown = [(TOKEN_KEY, TOKENS.of("learner-1").encode())]
    with (
        running_syncer(tmp_path, limits=Limits(hello_s=0.3)) as syncer,
        silent_streams(syncer.address, 1, shown) as (call,),
    ):
        with pytest.raises(grpc.RpcError):
            next(iter(call))
        syncer.told.wait(Kind.STREAM_REFUSED, reason="no_hello", known_as="learner-1")


def test_nothing_of_size_is_taken_between_hello_and_welcome() -> None:
    with (
        serving() as (hub, address),
        dialled(address, EVICTING, token=TOKENS.of("learner-0")) as eager,
    ):
        taken(hub.arrivals, Received)
        eager.send_payload(pb.FromLearner(push=pb.Push()), bytes(64 << 20), key=0)
        assert "at most 0" in taken(hub.arrivals, Closed).reason


def test_a_payload_larger_than_this_training_has_is_refused(tmp_path: Path) -> None:
    with running_syncer(tmp_path) as syncer:
        learner = joined(syncer)
        pull = learner.pulled()
        most = syncer.syncer_state.payload_bytes_max
        header = learner.answer(pull)
        header.payload.bytes = most + 1
        learner.connection._outbox.put(frame_of(pb.FromLearner(epoch=learner.epoch, push=header)))
        rejected = syncer.told.wait(Kind.PUSH_REJECTED, learner="learner-0")
        assert f"at most {most}" in rejected["detail"]
