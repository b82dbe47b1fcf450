"""Beginning and end of a fleet in a cluster: what goes wrong there leaves nothing behind."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import contact, run_objects
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pods import Pods
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.links.base import NoLinks
from tests.fleet.local_stage import Remembered
from tests.waiting import wait_until


class Server:
    """A cluster with nothing in it, which takes a keeper."""

    server, context, namespace = "https://here", "here", "chaos"

    def __init__(self, *, starts: bool = True, is_suspended: bool = False) -> None:
        self.is_closing = False
        self.renewals = 0
        self._keeper: Mapping[str, Any] = {
            "spec": {"suspend": is_suspended},
            "status": {"startTime": "2026-11-29T01:00:00Z"} if starts else {},
        }

    def get(self, *_: object) -> Mapping[str, Any]:
        return self._keeper

    def create(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"metadata": {**manifest["metadata"], "uid": "u"}}

    def list(self, *_: object, **__: object) -> tuple[Sequence[Mapping[str, Any]], str]:
        return [], "1"

    def lines(self, *_: object, **__: object) -> Iterator[bytes]:
        raise FleetError("cut off")

    def patch(self, *_: object) -> None:
        self.renewals += 1

    def delete(self, *_: object, **__: object) -> bool:
        return False

    def version(self) -> str:
        return "v1"

    def close(self) -> None:
        self.is_closing = True


class Broken(NoLinks):
    """Links whose proxy does not start, once the lease of the run is being renewed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> "Broken":
        wait_until(lambda: self._server.renewals > 0)
        raise FleetError("the proxy for links did not come up")


class Life:
    """A node that ends when it is killed, unless it cannot be reached."""

    machines, has_started, where = frozenset({"one"}), True, "its pod"

    def __init__(self, *, is_reached: bool) -> None:
        self._is_reached, self.is_over, self.is_abandoned = is_reached, False, False

    def signal(self, name: str) -> None:
        assert name == "SIGKILL"
        if not self._is_reached:
            raise FleetError("exec in its pod: the kubelet does not answer")
        self.is_over = True

    def abandon(self) -> None:
        self.is_abandoned = True


def fleet_of(server: Server, folder: Path, undo_log: Remembered, links: NoLinks) -> KubernetesFleet:
    clock = WallClock()
    return KubernetesFleet(
        folder, clock, undo_log=undo_log, cluster=cast("Cluster", server),
        settings=PodSettings(image="node:1"), start_s=60.0, lease_s=0.06,
        node_links=NodeLinks(clock=clock, made_by=links),
    )  # fmt: skip


def test_a_node_that_cannot_be_killed_at_the_end_goes_with_the_objects_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undo_log, lives = Remembered(), [Life(is_reached=False), Life(is_reached=True)]
    with fleet_of(Server(), tmp_path, undo_log, NoLinks()) as fleet:
        fleet._lives.update({f"learner-{n}": cast("Pods", one) for n, one in enumerate(lives)})
    assert [one.is_over for one in lives] == [False, True]
    assert all(one.is_abandoned for one in lives)
    assert undo_log.closed == [0]
    assert "its pod" in caplog.text


def test_where_its_links_do_not_begin_the_lease_is_renewed_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact, "_ASK_S", 0.01)
    server, undo_log, before = Server(), Remembered(), set(threading.enumerate())
    fleet = fleet_of(server, tmp_path, undo_log, Broken(server))
    with pytest.raises(FleetError, match="proxy"), fleet:
        pass
    wait_until(lambda: set(threading.enumerate()) <= before)
    assert server.is_closing
    assert [one["do"] for one in undo_log.opened] == ["delete_kubernetes_run"]
    assert undo_log.closed == []


@pytest.mark.parametrize(("is_suspended", "why"), [
    (True, "manageJobsWithoutQueueName"), (False, "controller of Jobs"),
])  # fmt: skip
def test_a_run_that_nothing_would_end_for_a_dead_harness_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_suspended: bool, why: str
) -> None:
    monkeypatch.setattr(run_objects, "_STARTED_S", 0.1)
    server, undo_log = Server(starts=False, is_suspended=is_suspended), Remembered()
    fleet = fleet_of(server, tmp_path, undo_log, NoLinks())
    with pytest.raises(FleetError, match=why), fleet:
        pass
    assert server.is_closing
    assert [one["do"] for one in undo_log.opened] == ["delete_kubernetes_run"]
    assert undo_log.closed == []
