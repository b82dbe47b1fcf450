"""What faults on machines ask of a cluster, and what they refuse to do to a run."""

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from lightkube.models.core_v1 import Pod

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.machines import Machines
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from tests.fleet.local_stage import Remembered

LEASE_S = 180.0


@dataclass
class Server:
    """A cluster whose machines are well, and which has the pods that a test puts there."""

    others: list[Mapping[str, Any]] = field(default_factory=list)
    made: list[Mapping[str, Any]] = field(default_factory=list)
    server, context, namespace, is_closing = "https://here", "here", "chaos", False

    def get(self, _: Resource, name: str) -> Mapping[str, Any]:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return {"metadata": {"name": name}, "status": {"conditions": [ready]}}

    def create(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        self.made.append(manifest)
        return manifest

    def pods(self, _: str) -> Sequence[Pod]:
        return [pod_of(one) for one in self.others]


def pod(name: str, machine: str, phase: str = "Running") -> Mapping[str, Any]:
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": machine, "containers": []},
        "status": {"phase": phase},
    }


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.is_closing = True


@pytest.fixture
def machines(server: Server, tmp_path: Path) -> Machines:
    cluster, undo_log = cast("Cluster", server), Remembered()
    objects = RunObjects(cluster, tmp_path, undo_log, PodSettings(image="node:1"), LEASE_S)
    return Machines(RunContext(
        run_directory=tmp_path, clock=WallClock(), undo_log=undo_log, run_objects=objects,
        arrivals=queue.Queue(), start_s=60.0,
    ))  # fmt: skip


def on(*names: str) -> Sequence[PodIncarnation]:
    """A learner on each of these machines."""
    lives = [
        SimpleNamespace(machine=one, incarnation=1, spec=SimpleNamespace(name=f"learner-{one}"))
        for one in names
    ]
    return cast("Sequence[PodIncarnation]", lives)


@pytest.mark.parametrize("for_s", [140.0, 240.0])
def test_a_stop_that_would_cost_the_keeper_its_lease_is_refused(
    server: Server, machines: Machines, for_s: float
) -> None:
    server.others = [pod("keeper", "b")]
    with pytest.raises(FleetError, match=r"keeper of the run is on b, .* longer fleet\.lease"):
        machines.stop_kubelet("injection-0", on("a", "b"), for_s)
    assert server.made == []
    assert not machines.is_without_kubelet("a")


@pytest.mark.parametrize(("keepers", "for_s"), [
    ([pod("keeper", "b")], 120.0),
    ([pod("keeper", "c"), pod("evicted", "b", "Failed")], 240.0),
])  # fmt: skip
def test_a_stop_that_the_keeper_outlives_is_not(
    server: Server, machines: Machines, keepers: list[Mapping[str, Any]], for_s: float
) -> None:
    server.others = keepers
    machines.stop_kubelet("injection-0", on("a", "b"), for_s)
    assert len(server.made) == 2
    assert machines.is_without_kubelet("b")
