"""Beginning and end of a fleet in a cluster: what goes wrong there leaves nothing behind."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import contact, run_objects
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pods import Pods, Setup
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.links.base import NoLinks
from tests.fleet.kubernetes.fake_cluster import FakeCluster
from tests.fleet.local_stage import Remembered
from tests.waiting import wait_until


class Server(FakeCluster):
    """It starts owner Jobs, unless it has no controller that does, or suspends them."""

    def __init__(self, **owner: Any) -> None:
        super().__init__()
        self._owner = owner or {"status": {"startTime": "2026-11-29T01:00:00Z"}}

    def create(self, manifest: Any, **_: object) -> Any:
        return super().create({**manifest, **self._owner})


class Broken(NoLinks):
    """Links whose proxy does not start, once the lease of the run is being renewed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __enter__(self) -> "Broken":
        wait_until(lambda: any(call.startswith("patch jobs/") for call in self._server.calls))
        raise FleetError("the proxy for links did not come up")


def fleet_of(server: Server, folder: Path, undo_log: Remembered, links: NoLinks) -> KubernetesFleet:
    clock = WallClock()
    return KubernetesFleet(
        folder, clock, undo_log=undo_log, cluster=server,
        setup=Setup(pods=PodSettings(image="node:1"), start_s=60.0, lease_s=0.06),
        node_links=NodeLinks(clock=clock, made_by=links),
    )  # fmt: skip


def test_a_node_that_cannot_be_killed_at_the_end_goes_with_the_objects_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def life(*, is_reached: bool) -> Any:
        """A node that ends when it is killed, unless it cannot be reached."""

        def signal(name: str) -> None:
            if not is_reached:
                raise FleetError("the kubelet does not answer")
            found.is_over = name == "SIGKILL"

        found = SimpleNamespace(
            machines=frozenset({"one"}), has_started=True, is_over=False, where="its pod",
            signal=signal, abandon=lambda: abandoned.append(found),
        )  # fmt: skip
        return found

    abandoned, server, undo_log = list[Any](), Server(), Remembered()
    lives = [life(is_reached=False), life(is_reached=True)]
    with fleet_of(server, tmp_path, undo_log, NoLinks()) as fleet:
        fleet._lives.update({f"learner-{n}": cast("Pods", one) for n, one in enumerate(lives)})
    assert [one.is_over for one in lives] == [False, True]
    assert abandoned == lives
    assert (server.objects, undo_log.closed) == ({}, [0])
    assert "its pod" in caplog.text


def is_left_to_others(server: Server, undo_log: Remembered) -> bool:
    """Whether the run is not deleted, and its entry open."""
    opened = [one["do"] for one in undo_log.opened]
    return server.is_closing and (opened, undo_log.closed) == (["delete_kubernetes_run"], [])


def test_where_its_links_do_not_begin_the_lease_is_renewed_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contact, "_ASK_S", 0.01)
    server, undo_log, before = Server(), Remembered(), set(threading.enumerate())
    with pytest.raises(FleetError), fleet_of(server, tmp_path, undo_log, Broken(server)):
        pass
    wait_until(lambda: set(threading.enumerate()) <= before)
    assert is_left_to_others(server, undo_log)


@pytest.mark.parametrize(("owner", "why"), [
    ({"spec": {"suspend": True}}, "manageJobsWithoutQueueName"),
    ({"status": {}}, "controller of Jobs"),
])  # fmt: skip
def test_a_run_that_nothing_would_end_for_a_dead_harness_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(run_objects, "_STARTED_S", 0.1)
    server, undo_log = Server(**owner), Remembered()
    with (
        pytest.raises(FleetError, match=why),
        fleet_of(server, tmp_path, undo_log, NoLinks()),
    ):
        pass
    assert is_left_to_others(server, undo_log)
