"""The time in which an API server did not answer, as it is reported."""

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.payloads import HarnessStalled
from chaoslab.fleet.kubernetes import contact
from chaoslab.fleet.nodes.arrivals import Arrivals
from tests.fleet.kubernetes.fake_cluster import FakeCluster
from tests.virtual_clock import VirtualClock


@pytest.mark.parametrize(("answers", "told"), [
    ([(0.01, True), (0.9, True)], []),
    ([(20.0, True)], [(0.5, 20.0)]),
    ([(15.0, False), (5.0, True)], [(0.5, 20.0)]),
    ([(0.0, False), (20.0, False), (0.0, True)], [(0.5, 20.0)]),
    ([(3.0, True), (0.1, True), (2.0, True)], [(0.5, 3.0), (3.6, 2.0)]),
])  # fmt: skip
def test_each_time_without_an_answer_is_reported_from_the_last_answer_on(
    monkeypatch: pytest.MonkeyPatch,
    answers: Sequence[tuple[float, bool]],
    told: Sequence[tuple[float, float]],
) -> None:
    """`answers`: how long each takes, and whether it is one. `told`: since when, for how long."""
    monkeypatch.setattr(contact, "_ASK_S", 0.0)
    monkeypatch.setattr(contact, "_LATE_S", 0.0)
    clock, left = VirtualClock(), [(0.5, True), *answers, (0.1, True)]

    class Server(FakeCluster):
        def version(self) -> str:
            if not left:
                asks.close()
                return "v1"
            takes_s, is_answered = left.pop(0)
            clock.sleep_until(clock.now_s() + takes_s)
            if not is_answered:
                raise FleetError("cannot reach the cluster")
            return "v1"

    arrivals: Arrivals = queue.Queue()
    asks = contact.Contact(Server(), clock, arrivals)
    asks._run()
    said = [one.payload for arrival in arrivals.queue for one in arrival.observe()]
    assert [(one.since_s, one.silent_s) for one in said] == [pytest.approx(one) for one in told]
    assert all(isinstance(one, HarnessStalled) and "here" in one.what for one in said)


def test_a_run_that_ends_hears_first_that_it_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, time_s in {"_ASK_S": 0.01, "_GAP_S": 0.05, "_LATE_S": 0.1, "_TOLD_S": 60.0}.items():
        monkeypatch.setattr(contact, name, time_s)
    is_asked, is_back = threading.Event(), threading.Event()

    class Silent(FakeCluster):
        def version(self) -> str:
            is_asked.set()
            assert is_back.wait(60)
            return "v1"

    clock, arrivals = WallClock(), queue.Queue()
    asks = contact.Contact(Silent(), clock, arrivals)
    asks.hear_out()  # at once: it has always answered
    with ThreadPoolExecutor() as pool:
        asks.start()
        assert is_asked.wait(60)
        heard = pool.submit(asks.hear_out)
        clock.sleep_until(clock.now_s() + 0.1)
        assert not heard.done()
        is_back.set()
        heard.result(60)
        assert len(arrivals.get_nowait().observe()) == 1
    asks.close()
    asks.hear_out()
