"""Bytes that arrive by TCP, by the kernel's count: real connections within this process."""

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from os import listdir

import pytest

from chaoslab.diloco.node import received
from chaoslab.diloco.node.received import received_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count is Linux's")

AMOUNT = 123_457
Pair = tuple[socket.socket, socket.socket]


def links_to(pair: Pair) -> list[str]:
    """The descriptors of this process that lead to these sockets."""
    mine = {f"socket:[{os.fstat(end.fileno()).st_ino}]" for end in pair}
    found = []
    for one in listdir("/proc/self/fd"):
        with suppress(OSError):  # another thread's, closed meanwhile
            if os.readlink(f"/proc/self/fd/{one}") in mine:
                found.append(one)
    return found


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """What else is open in this process belongs to others, and may hear something any time."""
    ours: list[Pair] = []
    listed = lambda _: [one for pair in ours for one in links_to(pair)]  # noqa: E731
    monkeypatch.setattr(received.os, "listdir", listed)
    return ours


@pytest.fixture(params=["127.0.0.1", "::1"])
def pair(request: pytest.FixtureRequest, only_ours: list[Pair]) -> Iterator[Pair]:
    """The two ends of a connection: who opened it, and who listened."""
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        server = socket.create_server((request.param, 0), family=family)
    except OSError as error:
        pytest.skip(f"nobody can listen at {request.param} here: {error}")
    with server:
        mine = socket.create_connection(server.getsockname()[:2])
        other, _ = server.accept()
    with mine, other:
        only_ours.append((mine, other))
        yield mine, other


def carry(pair: Pair, amount: int) -> None:
    """Send from one end and take it all out at the other, in pieces that fit into the buffers."""
    sender, taker = pair
    while amount:
        piece = min(amount, 10_000)
        sender.sendall(bytes(piece))
        amount -= len(taker.recv(piece, socket.MSG_WAITALL))


def count(besides_port: int = 0) -> int:
    counted = received_bytes(besides_port=besides_port)
    assert counted is not None
    return counted


def test_it_grows_by_what_arrives_either_way(pair: Pair) -> None:
    before = count()
    carry(pair, AMOUNT)
    assert count() - before == AMOUNT
    carry((pair[1], pair[0]), 1000)
    assert count() - before == AMOUNT + 1000


def test_connections_with_the_port_at_either_end_are_left_out(pair: Pair) -> None:
    ports = [end.getsockname()[1] for end in pair]
    before = [count(port) for port in ports]
    carry(pair, AMOUNT)
    assert [count(port) for port in ports] == before


def test_what_comes_without_tcp_does_not_count(only_ours: list[Pair]) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        only_ours.append((mine, other))
        before = count()
        carry((mine, other), AMOUNT)
        assert count() == before


def test_it_leaves_connections_and_descriptors_as_they_are(pair: Pair) -> None:
    pair[0].setblocking(False)
    before = links_to(pair)
    count()
    assert links_to(pair) == before
    assert not os.get_blocking(pair[0].fileno())
    carry(pair, 10)


def test_a_kernel_whose_struct_lacks_the_field_tells_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(received, "_RECEIVED", struct.Struct("=800xQ"))
    assert received_bytes(besides_port=0) is None


def test_another_system_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert received_bytes(besides_port=0) is None
