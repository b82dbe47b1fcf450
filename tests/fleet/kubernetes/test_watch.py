"""A watch of a cluster goes on whatever ends it, and asks no more often than it has to."""

import json
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import watch
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.job_watch import JobWatch
from chaoslab.fleet.kubernetes.proxy_watch import ProxyWatch
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.nodes.arrivals import Arrival, Arrivals

GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


class Server:
    """Its watches say these things and end; after the last of them the watch is closed."""

    def __init__(self, *watches: Sequence[Mapping[str, Any]] | FleetError) -> None:
        self._watches = list(watches)
        self.is_closing = False
        self.there: list[Mapping[str, Any]] = []

    def list(self, *_: object) -> tuple[Sequence[Mapping[str, Any]], str]:
        return self.there, "1"

    def lines(self, *_: object, **__: object) -> Iterator[bytes]:
        says = self._watches.pop(0)
        self.is_closing = not self._watches
        if isinstance(says, FleetError):
            raise says
        yield from (json.dumps(one).encode() for one in says)


def job(uid: str) -> Mapping[str, Any]:
    labels = {"chaoslab/node": "learner-0", "chaoslab/incarnation": "1"}
    return {"metadata": {"name": f"job-{uid}", "uid": uid, "labels": labels}}


def arrived(server: Server) -> list[Arrival]:
    """What is left for the fleet until the server has no more watches."""
    arrivals: Arrivals = queue.Queue()
    JobWatch(cast("Cluster", server), "", arrivals)._run()
    return list(arrivals.queue)


def seen(server: Server) -> list[tuple[str, str]]:
    """What is reported until then."""
    reports = [one.data for arrival in arrived(server) for one in arrival.observe()]
    return [(str(one["action"]), str(one["uid"])) for one in reports]


def test_watches_that_end_at_once_are_a_moment_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.1)
    began_s = time.monotonic()
    seen(Server([], [GONE], []))
    assert time.monotonic() - began_s >= 0.2


def test_what_went_while_no_watch_was_open_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    server = Server([{"type": "ADDED", "object": job("b")}, GONE], FleetError("cut off"), [])
    server.there = [job("a")]
    assert seen(server) == [("job", "a"), ("job", "b"), ("job_gone", "b")]


def test_a_watch_that_the_server_keeps_refusing_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    monkeypatch.setattr(watch, "_REFUSED_S", 0.0)
    refused = Refused("cannot watch jobs: forbidden")
    assert [one.error for one in arrived(Server(refused, []))] == [refused]


@pytest.mark.parametrize("between", [FleetError("no answer"), []], ids=["away", "answered"])
def test_a_watch_that_is_refused_now_and_then_goes_on(
    between: Sequence[Mapping[str, Any]] | FleetError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    monkeypatch.setattr(watch, "_REFUSED_S", 1e-9)  # no two in a row
    refused = Refused("cannot watch jobs: the server has just started")
    assert arrived(Server(refused, between, refused, between, refused, [])) == []


def test_a_watch_of_a_server_that_is_busy_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    monkeypatch.setattr(watch, "_REFUSED_S", 0.0)
    busy = Refused("cannot watch jobs: too many requests")
    busy.may_pass = True
    assert arrived(Server(busy, busy, [])) == []


def test_a_proxy_of_which_nothing_is_told_any_more_is_said_to_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the watch goes on, although nobody takes what it hands over."""
    monkeypatch.setattr(watch, "_AGAIN_S", 0.0)
    monkeypatch.setattr(watch, "_REFUSED_S", 0.0)
    refused = Refused("cannot watch pods: forbidden")
    proxy = ProxyWatch(cast("Cluster", Server(refused, refused, refused, [])), "uid")
    assert proxy.ended == ""
    proxy._run()
    assert proxy.ended.endswith("cannot watch pods: forbidden")
