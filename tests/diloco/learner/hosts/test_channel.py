"""What the processes of a learner tell each other: orders and heartbeats."""

import threading
from collections.abc import Callable
from multiprocessing import Pipe

import numpy as np
import pytest

from chaoslab.diloco.learner.hosts.channel import Order, Orders, receive
from chaoslab.diloco.learner.hosts.heartbeats import Heartbeats

PATIENCE_S = 30.0


def test_an_order_arrives_as_it_was_given() -> None:
    here, there = Pipe()
    arrays = (np.arange(6, dtype=np.int32).reshape(2, 3), np.zeros((0, 4), np.float32),
              np.asarray(7, np.int32), np.arange(8.0)[::2])  # fmt: skip
    Orders([here]).send(Order(do="step", facts={"of": 3, "dropped": [1, 2]}, arrays=arrays))
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


class Losses:
    """What was lost, and a way to wait for it."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._told = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self._told.set()

    def wait(self) -> str:
        assert self._told.wait(PATIENCE_S)
        (reason,) = self.reasons
        return reason


def test_a_silent_peer_is_lost_after_the_timeout() -> None:
    here, there = Pipe()
    losses = Losses()
    Heartbeats(here, timeout_s=0.2, lost=losses).start()
    assert losses.wait().startswith("no heartbeat for 0.")
    there.close()


def test_a_peer_that_ends_is_lost_at_once() -> None:
    here, there = Pipe()
    losses = Losses()
    Heartbeats(here, timeout_s=3600.0, lost=losses).start()
    there.close()
    assert losses.wait() == "its connection ended"


def test_two_peers_that_beat_do_not_lose_each_other() -> None:
    here, there = Pipe()
    losses, beats = Losses(), threading.Semaphore(0)

    class Counted:
        """A connection that counts what arrives."""

        def __getattr__(self, name: str) -> Callable[..., object]:
            if name == "recv_bytes":
                beats.release()
            return getattr(there, name)  # type: ignore[no-any-return]

    Heartbeats(here, timeout_s=0.4, lost=losses).start()
    Heartbeats(Counted(), timeout_s=0.4, lost=losses).start()  # type: ignore[arg-type]
    for _ in range(6):  # longer than the timeout
        assert beats.acquire(timeout=PATIENCE_S)
    assert losses.reasons == []
