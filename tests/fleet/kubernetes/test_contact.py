"""The time in which an API server did not answer, as it is reported."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.core.payloads import HarnessStalled
from chaoslab.fleet.kubernetes import contact
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.nodes.arrivals import Arrivals
from tests.virtual_clock import VirtualClock


class Server(Cluster):
    """Answers as it is told; each answer takes time on the clock."""

    def __init__(self, clock: VirtualClock, *answers: tuple[float, bool]) -> None:
        self.context, self.is_closing = "here", False
        self._clock, self._answers = clock, list(answers)
        self.when_told: Callable[[], None] = lambda: None

    def version(self) -> str:
        if not self._answers:
            self.when_told()
            return "v1"
        takes_s, is_answered = self._answers.pop(0)
        self._clock.sleep_until(self._clock.now_s() + takes_s)
        if not is_answered:
            raise FleetError("cannot reach the cluster")
        return "v1"


def reported(monkeypatch: pytest.MonkeyPatch, *answers: tuple[float, bool]) -> list[Observation]:
    """What is handed over by the time at which all answers were given."""
    monkeypatch.setattr(contact, "_ASK_S", 0.0)
    monkeypatch.setattr(contact, "_LATE_S", 0.0)
    clock = VirtualClock()
    arrivals: Arrivals = queue.Queue()
    server = Server(clock, *answers)
    asks = contact.Contact(server, clock, arrivals)
    server.when_told = asks.close
    asks._run()
    return [seen for arrival in list(arrivals.queue) for seen in arrival.observe()]


def test_a_server_that_answers_at_once_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, (0.01, True), (0.9, True), (0.01, True)) == []


@pytest.mark.parametrize("answers", [
    [(20.0, True)], [(15.0, False), (5.0, True)], [(0.0, False), (20.0, False), (0.0, True)],
])  # fmt: skip
def test_a_time_without_an_answer_is_reported_from_the_last_answer_on(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[float, bool]]
) -> None:
    (seen,) = reported(monkeypatch, (0.5, True), *answers, (0.1, True))
    said = seen.event.payload
    assert isinstance(said, HarnessStalled)
    assert seen.kind is Kind.HARNESS_STALLED
    assert (said.since_s, said.silent_s) == (0.5, 20.0)
    assert said.what == "the API server of here was out of reach"


def test_two_such_times_are_two_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reported(monkeypatch, (3.0, True), (0.1, True), (2.0, True))
    assert [one.data["silent_s"] for one in found] == [3.0, pytest.approx(2.0)]


class Silent(Cluster):
    """Does not answer until it is back."""

    def __init__(self) -> None:
        self.context, self.is_closing = "here", False
        self.is_asked, self.is_back = threading.Event(), threading.Event()

    def version(self) -> str:
        self.is_asked.set()
        assert self.is_back.wait(60)
        return "v1"


def test_a_run_that_ends_hears_first_that_it_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, time_s in {"_ASK_S": 0.01, "_GAP_S": 0.05, "_LATE_S": 0.1, "_TOLD_S": 60.0}.items():
        monkeypatch.setattr(contact, name, time_s)
    clock, server, arrivals = WallClock(), Silent(), queue.Queue()
    asks = contact.Contact(server, clock, arrivals)
    with ThreadPoolExecutor() as pool:
        asks.start()
        assert server.is_asked.wait(60)
        heard = pool.submit(asks.hear_out)
        clock.sleep_until(clock.now_s() + 0.1)
        assert not heard.done()
        server.is_back.set()
        heard.result(60)
        (seen,) = arrivals.get_nowait().observe()
    assert seen.kind is Kind.HARNESS_STALLED
    asks.close()
    asks.hear_out()


def test_one_that_always_answered_is_not_waited_for() -> None:
    contact.Contact(Silent(), WallClock(), queue.Queue()).hear_out()
