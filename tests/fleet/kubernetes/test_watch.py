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
from chaoslab.fleet.nodes.arrivals import Arrivals

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


def seen(server: Server) -> list[tuple[str, str]]:
    """What is reported until the server has no more watches."""
    arrivals: Arrivals = queue.Queue()
    JobWatch(cast("Cluster", server), "", arrivals)._run()
    reports = [one.data for arrival in list(arrivals.queue) for one in arrival.observe()]
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
