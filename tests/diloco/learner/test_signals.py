"""The hang hook and the locks of the link: a wedged training thread must not hold one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from chaoslab.diloco.learner import signals
from chaoslab.diloco.learner.signals import Wedge
from tests.diloco.hand_syncer import HandSyncer
from tests.diloco.learner.test_messenger import Trainer

HEARTBEATS = 4


@pytest.fixture
def wedge() -> Iterator[Wedge]:
    """That of the thread of the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    wedge = Wedge()
    wedge.install_handlers()
    yield wedge
    for number, handler in before.items():
        signal.signal(number, handler)


class Listener:
    """Hears heartbeats on the syncer's side, then lets go of the wedge, heard or not."""

    def __init__(self, syncer: HandSyncer) -> None:
        self.heard = 0
        self.is_wedged = threading.Event()
        self._syncer = syncer
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        self.is_wedged.wait()
        while self._syncer.next(0.0) is not None:
            pass  # what was said before
        try:
            for _ in range(HEARTBEATS):
                self._syncer.hear("progress")
                self.heard += 1
        finally:
            os.kill(os.getpid(), signal.SIGUSR2)

    def join(self) -> None:
        self._thread.join()


@pytest.mark.gate
def test_a_wedge_that_comes_under_a_lock_of_the_link_does_not_stop_the_heartbeats(
    wedge: Wedge,
) -> None:
    with HandSyncer() as syncer:
        trainer = Trainer(syncer)
        syncer.admit()
        trainer.until(lambda inbox: inbox.joined)
        trainer.boundary(1)
        listener = Listener(syncer)
        with trainer.messenger._lock:
            listener.is_wedged.set()
            os.kill(os.getpid(), signal.SIGUSR1)
        began_s = time.monotonic()
        with wedge.allowed():
            hung_s = time.monotonic() - began_s
        listener.join()
        trainer.messenger.leave("the test is over")
        assert listener.heard == HEARTBEATS
        assert hung_s > 0.4 * (HEARTBEATS - 1), "it did hang, for as long as they were heard"


def test_a_wedge_hangs_at_once_where_it_is_allowed_however_long_the_step_is(
    wedge: Wedge, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            os.kill(os.getpid(), signal.SIGUSR2)

    monkeypatch.setattr(signals, "time", SimpleNamespace(sleep=nap))
    with wedge.allowed():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not wedge.is_asked, "the signal was taken up, and let go of, in this block"
        assert len(naps) == 3


def test_a_wedge_that_is_let_go_of_before_it_took_effect_does_nothing(
    wedge: Wedge,
) -> None:
    os.kill(os.getpid(), signal.SIGUSR1)
    assert wedge.is_asked
    os.kill(os.getpid(), signal.SIGUSR2)
    with wedge.allowed():
        assert not wedge.is_asked
