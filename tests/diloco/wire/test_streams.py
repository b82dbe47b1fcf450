"""The streams over real grpc on loopback: round trips, backlog, hostile peers, ends, TLS."""

import logging
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import grpc
import numpy as np
import pytest

from chaoslab.diloco.learner.link import Backoff
from chaoslab.diloco.wire import wire_pb2 as pb
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.frames import (
    CHUNK_BYTES,
    FRAME_BYTES_MAX,
    Assembler,
    frame_of,
    payload_frames,
)
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.mailbox import Arrival, Closed, Gate, Inbox, Received
from chaoslab.diloco.wire.streams import METHOD, TOKEN_KEY, Limits
from chaoslab.diloco.wire.tls import InsecureAddress, Tls
from tests.diloco.known import TOKENS

PATIENCE_S = 60.0
HELLO = pb.FromLearner(hello=pb.Hello(learner="learner-0", incarnation=1))
TOKEN = TOKENS.of("learner-0")
W = TypeVar("W", Received, Closed)  # type: ignore[type-arg]  # of either end


def some_bytes(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def taken(arrivals: "Inbox[Arrival]", kind: type[W]) -> W:  # type: ignore[type-arg]
    """The next arrival, which must be of this kind."""
    what = arrivals.get(timeout=PATIENCE_S).event
    assert isinstance(what, kind), what
    return what


def until(arrivals: "Inbox[Arrival]", kind: type[W]) -> W:  # type: ignore[type-arg]
    """The next arrival of this kind."""
    while not isinstance(what := arrivals.get(timeout=PATIENCE_S).event, kind):
        pass
    return what


@contextmanager
def serving(limits: Limits | None = None, tls: Tls | None = None) -> Iterator[tuple[Hub, str]]:
    hub = Hub("127.0.0.1:0", tokens=TOKENS, limits=limits, tls=tls)
    address = hub.start()
    try:
        yield hub, address
    finally:
        hub.stop()


@contextmanager
def dialled(
    address: str, says: pb.FromLearner | None = HELLO, **how: object
) -> Iterator[Connection]:
    """A connection on which this was said, if anything."""
    connection = Connection(address, **{"token": "" if "tls" in how else TOKEN, **how})  # type: ignore[arg-type]
    connection.open()
    if says is not None:
        connection.send(says)
    yield connection
    connection.close()


@contextmanager
def attached(limits: Limits | None = None) -> Iterator[tuple[Hub, Connection]]:
    """A hub and one connection that said hello, as session 1."""
    with serving(limits) as (hub, address), dialled(address, limits=limits) as connection:
        assert taken(hub.arrivals, Received).message == HELLO
        hub.admit(1)
        yield hub, connection


@contextmanager
def raw_stream(address: str) -> Iterator[tuple[Callable[[bytes], None], Iterator[bytes]]]:
    """A stream of bytes from a peer that knows grpc and nothing else: (send, responses)."""
    frames: Inbox[bytes] = Inbox(items_max=1000, bytes_max=1)
    gate = Gate(frames)
    shown = [(TOKEN_KEY, TOKEN.encode())]
    with grpc.insecure_channel(address) as channel:
        yield gate.put, channel.stream_stream(METHOD)(iter(frames.get, b"end"), metadata=shown)
        gate.put(b"end")


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("size", [0, 1000, CHUNK_BYTES + 1])
def test_payloads_go_both_ways(size: int) -> None:
    sent = some_bytes(size)
    with attached() as (hub, connection):
        connection.send_payload(pb.FromLearner(epoch=1, push=pb.Push(round=9)), sent, key=0)
        pushed = taken(hub.arrivals, Received)
        assert pushed.message.push.round == 9
        assert pushed.payload == sent
        hub.send_payload(
            1, pb.ToLearner(epoch=1, fragment=pb.Fragment(version=4)), pushed.payload, key=0
        )
        published = taken(connection.arrivals, Received)
        assert published.message.fragment.version == 4
        assert published.payload == sent


def test_a_payload_that_cannot_be_made_ends_the_stream_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> bytes:
        raise ArithmeticError("no such gradient")

    with attached() as (_, connection), caplog.at_level(logging.ERROR):
        connection.send_payload(pb.FromLearner(push=pb.Push()), fail, key=1)
        assert "no such gradient" in until(connection.arrivals, Closed).reason
    assert "no such gradient" in caplog.text


# ---------------------------------------------------------------- backlog


def test_a_peer_that_does_not_read_controls_is_broken_off() -> None:
    with serving(Limits(controls_max=50)) as (hub, address), raw_stream(address) as (send, _):
        send(frame_of(HELLO))
        taken(hub.arrivals, Received)
        message = pb.ToLearner(refused=pb.Refused(reason="x" * 100_000))
        for _ in range(1000):
            hub.send(1, message)
        until(hub.arrivals, Closed)
        assert hub.pings(1) is None


def test_a_hub_that_is_not_emptied_slows_the_sender_down_and_loses_nothing() -> None:
    limits = Limits(arrivals_max=4, arrivals_bytes_max=4 << 20)
    pushes = 40
    with attached(limits) as (hub, connection):
        for number in range(pushes):
            push = pb.FromLearner(push=pb.Push(round=number))
            connection.send_payload(push, bytes(2 << 20), key=number)
        rounds = []
        for number in range(pushes):
            rounds.append(taken(hub.arrivals, Received).message.push.round)
            if number == 0:
                assert connection._outbox.waiting[1] > 10, "most of them have not left"
        assert rounds == list(range(pushes))


# ---------------------------------------------------------------- hostile peers


def damaged() -> list[bytes]:
    header, chunk, *_ = payload_frames(pb.FromLearner(push=pb.Push()), some_bytes(100_000))
    return [header, chunk[:-1] + bytes([chunk[-1] ^ 1])]


@pytest.mark.parametrize("frames", [[b"\xde\xad\xbe\xef" * 100], damaged()])
def test_a_garbled_stream_is_counted_and_closed_and_harms_nobody(frames: list[bytes]) -> None:
    with attached() as (hub, connection):
        with raw_stream(hub.address or "") as (send, responses):
            send(frame_of(HELLO))
            opened = hub.arrivals.get(timeout=PATIENCE_S)
            assert isinstance(opened.event, Received)
            hub.admit(opened.session)
            for frame in frames:
                send(frame)
            assert taken(hub.arrivals, Closed).is_garbled
            with pytest.raises((grpc.RpcError, StopIteration)):
                next(responses)
        connection.send(HELLO)
        assert taken(hub.arrivals, Received).message == HELLO


def test_a_frame_that_is_too_large_ends_the_stream() -> None:
    with serving() as (hub, address), raw_stream(address) as (send, _):
        send(bytes(FRAME_BYTES_MAX + 1))
        until(hub.arrivals, Closed)


def test_a_syncer_that_speaks_nonsense_is_garbled_at_the_learner() -> None:
    handler = grpc.method_handlers_generic_handler(
        "chaoslab.Syncer",
        {"Attach": grpc.stream_stream_rpc_method_handler(lambda *_: iter([b"\xff" * 9]))},
    )
    server = grpc.server(ThreadPoolExecutor(2), handlers=(handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with dialled(f"127.0.0.1:{port}") as connection:
        assert taken(connection.arrivals, Closed).is_garbled
    server.stop(None).wait()


def test_a_stream_too_many_is_refused() -> None:
    with attached(Limits(sessions_max=1)) as (hub, _), dialled(hub.address or "") as second:
        assert "resource_exhausted" in taken(second.arrivals, Closed).reason


@pytest.mark.gate
def test_a_dial_that_nobody_answers_is_given_up_as_early_as_it_was_asked_to() -> None:
    """As at the address of a pod that is gone; this one takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        brief, patient = Connection(address, token=TOKEN), Connection(address, token=TOKEN)
        patient.open()
        brief.open(within_s=0.3)
        assert "unavailable" in taken(brief.arrivals, Closed).reason
        assert not patient.arrivals.items
        patient.close()


# ---------------------------------------------------------------- ends


def test_each_end_hears_once_that_the_other_is_gone() -> None:
    with attached() as (hub, connection):
        hub.stop()
        taken(connection.arrivals, Closed)
        taken(hub.arrivals, Closed)
        connection.send(HELLO)
        hub.send(1, pb.ToLearner(stop=pb.Stop()))
        hub.send_payload(1, pb.ToLearner(fragment=pb.Fragment()), b"x", key=0)
        assert not connection.arrivals.items
        assert not hub.arrivals.items


def test_a_taken_address_is_an_error() -> None:
    with serving() as (_, address), pytest.raises(OSError, match=address):
        Hub(address).start()


def test_closing_a_peer_that_does_not_read_takes_a_bounded_time() -> None:
    limits = Limits(linger_s=0.3)
    with serving(limits) as (hub, address), raw_stream(address) as (send, _):
        send(frame_of(HELLO))
        taken(hub.arrivals, Received)
        for key in range(30):
            hub.send_payload(1, pb.ToLearner(fragment=pb.Fragment()), bytes(1 << 20), key=key)
        hub.close(1, pb.ToLearner(fenced=pb.Fenced()))
        until(hub.arrivals, Closed)


# ---------------------------------------------------------------- addresses and TLS


@pytest.mark.parametrize("address", ["127.0.0.1:0", "127.9.9.9:1", "localhost:80", "[::1]:1"])
def test_plaintext_stays_on_this_machine(address: str) -> None:
    Hub(address)
    Connection(address)


@pytest.mark.parametrize("end", [Hub, Connection])
@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        (("0.0.0.0:0", "10.0.0.1:4600", "[::]:0", "syncer.example:4600"), InsecureAddress),
        (("127.0.0.1", "somewhere", "127.0.0.1:http", ""), ValueError),
    ],
    ids=["beyond this machine", "no address"],
)
def test_other_addresses_are_refused_in_plaintext(
    end: Callable[[str], object], addresses: tuple[str, ...], error: type[Exception]
) -> None:
    for address in addresses:
        with pytest.raises(error):
            end(address)


# ---------------------------------------------------------------- trying again


def test_backoff_doubles_with_jitter_up_to_its_cap() -> None:
    backoff = Backoff(random.Random(1))
    waits = [backoff.next_s() for _ in range(12)]
    assert 0.02 <= waits[0] <= 0.2
    for attempt, wait_s in enumerate(waits):
        most_s = min(0.2 * 2**attempt, 5.0)
        assert most_s / 10 <= wait_s <= most_s
    backoff.reset()
    assert backoff.next_s() <= 0.2


def test_a_push_waits_for_no_more_than_a_frame_of_a_checkpoint() -> None:
    """What a donor that is asked for its work meanwhile has to send, frame by frame."""
    connection = Connection("127.0.0.1:1", token="never dialled")
    frames, taking = connection._outbox.frames(), Assembler(pb.FromLearner.FromString, 1 << 30)
    checkpoint = pb.FromLearner(checkpoint=pb.Checkpoint(request=5))
    connection.send_payload(checkpoint, lambda: bytes(1 << 24), key="checkpoint")
    assert [taking.take(next(frames)) for _ in range(3)] == [None] * 3
    connection.send_payload(pb.FromLearner(push=pb.Push(round=7)), b"work", key="push")
    size_bytes, taken = 0, None
    while taken is None:
        frame = next(frames)
        size_bytes, taken = size_bytes + len(frame), taking.take(frame)
    assert taken[0].push.round == 7
    assert size_bytes < 1 << 19
