"""The relay moves every byte in order, counts it once, and lets go at any moment."""

import hashlib
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from chaoslab.links.proxy.relay import Flow, Outcome, Relay, Tally

LIMIT_S = 60.0
BLOCK = bytes(range(256)) * 256
LARGE = os.urandom(1 << 20) * 8


class Line:
    """A sender and a receiver, and between them the two sockets of a proxy."""

    def __init__(self) -> None:
        self.sender, self.source = _pair()
        self.target, self.receiver = _pair()
        for end in (self.source, self.target):
            end.setblocking(False)
        self.tally = Tally()
        self.is_over = threading.Event()
        self.flow = Flow(self.source.fileno(), self.target.fileno(), self.tally, self.is_over.set)

    def close(self) -> None:
        self.flow.close()
        for end in (self.sender, self.source, self.target, self.receiver):
            end.close()

    def outcome(self) -> Outcome | None:
        assert self.is_over.wait(LIMIT_S)
        return self.flow.outcome

    def received(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size and (part := self.receiver.recv(size - len(parts))):
            parts += part
        return bytes(parts)


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname(), timeout=LIMIT_S)
        accepted, _ = listener.accept()
        accepted.settimeout(LIMIT_S)
        return dialled, accepted


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


@pytest.fixture(scope="module")
def relay() -> Relay:
    return Relay()


@pytest.fixture
def line(relay: Relay) -> Iterator[Line]:
    with closing(Line()) as line:
        yield line
        relay.remove(line.flow)  # before its sockets' numbers are given to others


def sending(line: Line, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=lambda: line.sender.sendall(data), daemon=True)
    thread.start()
    return thread


def test_bytes_arrive_and_are_counted_once(relay: Relay, line: Line) -> None:
    relay.add(line.flow)
    sending(line, LARGE)
    assert line.received(len(LARGE)) == LARGE
    line.sender.shutdown(socket.SHUT_WR)
    assert line.outcome() is Outcome.ENDED
    assert (line.tally.received, line.tally.delivered) == (len(LARGE), len(LARGE))


def test_the_end_comes_after_all_bytes_even_if_nobody_reads_at_first(
    relay: Relay, line: Line
) -> None:
    line.sender.setblocking(False)
    sent = 0
    while not is_full(relay, line):
        with suppress(BlockingIOError):
            sent += line.sender.send(BLOCK)
    line.sender.shutdown(socket.SHUT_WR)
    assert line.tally.delivered < line.tally.received
    assert len(line.received(sent)) == sent
    assert line.outcome() is Outcome.ENDED
    assert line.tally.delivered == sent


def is_full(relay: Relay, line: Line) -> bool:
    """Whether the target takes no more. The relay has the flow again afterwards."""
    relay.remove(line.flow)
    try:
        line.flow.empty(line.tally)
    except BlockingIOError:
        return True
    finally:
        relay.add(line.flow)
    return False


def test_both_directions_of_one_connection_pass(relay: Relay, line: Line) -> None:
    back = Flow(line.target.fileno(), line.source.fileno(), Tally(), lambda: None)
    for flow in (line.flow, back):
        relay.add(flow)
    for _ in range(100):
        line.sender.sendall(b"ping")
        assert line.received(4) == b"ping"
        line.receiver.sendall(b"pong")
        assert line.sender.recv(4) == b"pong"
    relay.remove(back)
    relay.remove(line.flow)
    back.close()


def test_nothing_passes_after_it_was_removed(relay: Relay, line: Line) -> None:
    relay.add(line.flow)
    line.sender.sendall(b"before")
    assert line.received(6) == b"before"
    relay.remove(line.flow)
    relay.remove(line.flow)
    line.sender.sendall(b"after")
    line.receiver.setblocking(False)
    with pytest.raises(BlockingIOError):
        line.receiver.recv(5)
    assert line.tally.received == 6
    line.receiver.settimeout(LIMIT_S)
    relay.add(line.flow)
    assert line.received(5) == b"after"


def test_no_byte_is_lost_or_moved_by_letting_go_under_load(relay: Relay, line: Line) -> None:
    by_loop = Tally()
    sender = sending(line, LARGE)
    digest, left = hashlib.blake2b(), len(LARGE)
    relay.add(line.flow)
    while left:
        part = line.receiver.recv(1 << 16)
        digest.update(part)
        left -= len(part)
        relay.remove(line.flow)
        if line.flow.in_pipe:
            with suppress(BlockingIOError):
                line.flow.empty(by_loop)
        relay.add(line.flow)
    sender.join(LIMIT_S)
    assert digest.digest() == hashlib.blake2b(LARGE).digest()
    assert line.tally.received == len(LARGE)
    assert line.tally.delivered + by_loop.delivered == len(LARGE)


def test_a_source_that_was_reset_is_told_from_one_that_ended(relay: Relay, line: Line) -> None:
    relay.add(line.flow)
    reset(line.sender)
    assert line.outcome() is Outcome.SOURCE_BROKE


def test_a_target_that_was_reset_is_told(relay: Relay, line: Line) -> None:
    relay.add(line.flow)
    reset(line.receiver)
    while not line.is_over.is_set():
        line.sender.sendall(BLOCK)
    assert line.outcome() is Outcome.TARGET_BROKE


class Watched:
    """An epoll that notes of which sockets it told."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self.told: list[int] = []

    def poll(self) -> list[tuple[int, int]]:
        found = self._epoll.poll()
        self.told += [descriptor for descriptor, _ in found]
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._epoll, name)


def test_a_socket_that_is_hung_up_wakes_nobody(
    relay: Relay, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the relay would turn without rest; epoll tells of such a socket at every call."""
    back = Flow(line.target.fileno(), line.source.fileno(), Tally(), lambda: None)
    for flow in (line.flow, back):
        relay.add(flow)
    line.sender.shutdown(socket.SHUT_WR)
    assert line.outcome() is Outcome.ENDED
    for end in (line.target, line.source):
        end.shutdown(socket.SHUT_WR)
    watched = Watched(relay._epoll)
    monkeypatch.setattr(relay, "_epoll", watched)
    with closing(Line()) as other:
        relay.add(other.flow)
        for _ in range(3):  # the first is told by the call that has begun before
            other.sender.sendall(b"on")
            assert other.received(2) == b"on"
        relay.remove(other.flow)
        assert other.source.fileno() in watched.told
        assert {line.source.fileno(), line.target.fileno()}.isdisjoint(watched.told)
    relay.remove(back)
    back.close()
