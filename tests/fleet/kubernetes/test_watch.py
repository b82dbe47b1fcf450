"""A watch of a cluster goes on whatever ends it, and asks no more often than it has to."""

import json
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import watch
from chaoslab.fleet.kubernetes.job_watch import JobWatch
from chaoslab.fleet.kubernetes.proxy_host import ProxyWatch
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals
from tests.fleet.kubernetes.fake_cluster import FakeCluster

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
REFUSED, BUSY = Refused("cannot watch: forbidden"), Refused("cannot watch: too many requests")
BUSY.may_pass = True


class Server(FakeCluster):
    """Its watches say these things and end; after the last of them the watch is closed."""

    def __init__(self, *watches: Sequence[Mapping[str, Any]] | FleetError) -> None:
        super().__init__()
        self._watches = list(watches)

    def lines(self, *_: object, **__: object) -> Iterator[bytes]:
        says = self._watches.pop(0)
        self.is_closing = not self._watches
        if isinstance(says, FleetError):
            raise says
        yield from (json.dumps(one).encode() for one in says)


def job(uid: str) -> dict[str, Any]:
    labels = {"chaoslab/node": "learner-0", "chaoslab/incarnation": "1"}
    return {"metadata": {"name": f"job-{uid}", "uid": uid, "labels": labels}}


def arrived(server: Server) -> list[Arrival]:
    """What is left for the fleet until the server has no more watches."""
    arrivals: Arrivals = queue.Queue()
    JobWatch(server, "", arrivals)._run()
    return list(arrivals.queue)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    monkeypatch.setattr(watch, "_REFUSED_S", 0.0)


def test_watches_that_end_at_once_are_a_moment_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.1)
    began_s = time.monotonic()
    arrived(Server([], [GONE], []))
    assert time.monotonic() - began_s >= 0.2


def test_what_went_while_no_watch_was_open_is_reported_once() -> None:
    server = Server([{"type": "ADDED", "object": job("b")}, GONE], FleetError("cut off"), [])
    server.objects["jobs/a"] = job("a")
    told = [one.data for arrival in arrived(server) for one in arrival.observe()]
    assert [(one["action"], one["uid"]) for one in told] == [
        ("job", "a"), ("job", "b"), ("job_gone", "b"),
    ]  # fmt: skip


def test_a_watch_that_the_server_keeps_refusing_is_an_error_unless_it_is_busy() -> None:
    assert [one.error for one in arrived(Server(REFUSED, []))] == [REFUSED]
    assert arrived(Server(BUSY, BUSY, [])) == []


@pytest.mark.parametrize("between", [FleetError("no answer"), []], ids=["away", "answered"])
def test_a_watch_that_is_refused_now_and_then_goes_on(
    between: Sequence[Mapping[str, Any]] | FleetError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_REFUSED_S", 1e-9)  # no two in a row
    assert arrived(Server(REFUSED, between, REFUSED, between, REFUSED, [])) == []


def test_a_proxy_of_which_nothing_is_told_any_more_has_ended_and_is_watched_all_the_same() -> None:
    proxy = ProxyWatch(Server(REFUSED, REFUSED, REFUSED, []), "uid")
    assert proxy.ended == ""
    proxy._run()
    assert proxy.ended.endswith(str(REFUSED))
