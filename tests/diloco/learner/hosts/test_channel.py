"""What the processes of a learner tell each other: orders and heartbeats."""

import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import cast

import numpy as np
import pytest

from chaoslab.diloco.learner.hosts import meeting
from chaoslab.diloco.learner.hosts.channel import Order, receive, send
from chaoslab.diloco.learner.hosts.meeting import Heartbeats

PATIENCE_S = 60.0


def test_an_order_arrives_as_it_was_given() -> None:
    here, there = Pipe()
    arrays = (np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((0, 4), np.float32),
              np.asarray(7, np.int32), np.arange(8.0)[::2])  # fmt: skip
    send(Order(do="step", facts={"of": 3, "dropped": [1, 2]}, arrays=arrays), [here])
    found = receive(there)
    assert (found.do, found.facts) == ("step", {"of": 3, "dropped": [1, 2]})
    for given, arrived in zip(arrays, found.arrays, strict=True):
        assert given.dtype == arrived.dtype
        np.testing.assert_array_equal(given, arrived)


def test_orders_end_with_host_0() -> None:
    here, there = Pipe()
    here.close()
    with pytest.raises(EOFError):
        receive(there)


# ---------------------------------------------------------------- heartbeats

TIMEOUT_S = 4.0


class Peer:
    """Another process at the end of a connection, on a clock that moves only while it is awaited.

    `silences_s`: how long it says nothing before each of its heartbeats; then it goes on as `then`.
    """

    def __init__(self, *silences_s: float, then: type[Exception] | None = EOFError) -> None:
        self.now_s, self.heard = 0.0, 0
        self._silences_s, self._then = list(silences_s), then

    def poll(self, timeout_s: float) -> bool:
        if not self._silences_s and self._then is not None:
            raise self._then
        left_s = self._silences_s[0] if self._silences_s else float("inf")
        self.now_s += min(left_s, timeout_s)
        if left_s <= timeout_s:
            del self._silences_s[0]
            return True
        if self._silences_s:
            self._silences_s[0] -= timeout_s
        return False

    def recv_bytes(self) -> None:
        pass

    def send_bytes(self, _: bytes) -> None:
        self.heard += 1


def lost(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why it was lost, in the end."""
    monkeypatch.setattr(meeting, "monotonic", lambda: peer.now_s)
    reasons, is_lost = list[str](), threading.Event()

    def lose(reason: str) -> None:
        reasons.append(reason)
        is_lost.set()

    Heartbeats(cast("Connection", peer), timeout_s=TIMEOUT_S, lost=lose).start()
    assert is_lost.wait(PATIENCE_S)
    return reasons


def test_a_silent_peer_is_lost_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(then=None)
    assert len(lost(peer, monkeypatch)) == 1
    assert TIMEOUT_S < peer.now_s <= 1.25 * TIMEOUT_S


def test_a_peer_that_beats_is_kept_until_its_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Peer(*[0.9 * TIMEOUT_S] * 5)
    (reason,) = lost(peer, monkeypatch)
    assert "connection" in reason
    assert peer.heard == pytest.approx(peer.now_s / TIMEOUT_S * 4, abs=2)


def test_a_process_that_was_stopped_itself_loses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Peer):
        """The first wait lasts an hour."""

        def poll(self, timeout_s: float) -> bool:
            self.now_s += 3600.0 * (self.now_s == 0)
            return super().poll(timeout_s)

    peer = Stopped(*[0.9 * TIMEOUT_S] * 3)
    (reason,) = lost(peer, monkeypatch)
    assert "connection" in reason
