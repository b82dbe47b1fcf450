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
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.machines import Machines
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.run_context import RunContext
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.node_links import NodeLinks
from tests.engine import learner
from tests.fleet.local_stage import Remembered

LEASE_S = 180.0


@dataclass
class Server:
    """A cluster whose machines are well, and which has the pods that a test puts there."""

    others: list[Mapping[str, Any]] = field(default_factory=list)
    made: list[Mapping[str, Any]] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    vanished: str = ""
    """Name of a pod that is gone when it is to be evicted."""
    server, context, namespace, is_closing = "https://here", "here", "chaos", False

    def get(self, _: Resource, name: str) -> Mapping[str, Any]:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return {"metadata": {"name": name}, "status": {"conditions": [ready]}}

    def patch(self, *_: object) -> None:
        """Nothing to remember."""

    def evict(self, pod: str) -> None:
        if pod == self.vanished:
            raise Missing(f"no pod {pod}")
        self.evicted.append(pod)

    def create(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        self.made.append(manifest)
        return manifest

    def pods(self, selector: str) -> Sequence[Pod]:
        if not selector.startswith("job-name="):
            return [pod_of(one) for one in self.others]
        assert selector.endswith("-proxy")
        return [pod_of(one) for one in self.others if one["metadata"]["labels"]["job"] == "proxy"]


def pod(job: str, machine: str) -> Mapping[str, Any]:
    return {
        "metadata": {"name": f"{job}-{machine}", "labels": {"job": job}},
        "spec": {"nodeName": machine, "containers": []},
        "status": {"phase": "Running"},
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


class Held(PodIncarnation):
    """A learner's pod that runs on a machine."""

    has_exited = False

    def __init__(self, server: Server, machine: str) -> None:
        self.cluster = cast("Cluster", server)
        self.spec, self.incarnation = learner(f"learner-{machine}"), 1
        self.is_ending, self.is_over, self._sent = False, False, []
        self._state = PodState(name=self.spec.name, machine=machine, started_s=1.0)

    def await_start(self) -> None:
        """It has started."""


def on(server: Server, *machines: str) -> Sequence[PodIncarnation]:
    """A learner on each of these machines."""
    return [Held(server, one) for one in machines]


def test_each_machine_has_its_own_stop(server: Server, machines: Machines) -> None:
    machines.stop_kubelet("injection-0", on(server, "a", "b"), 240.0)
    assert len(server.made) == 2
    assert machines.is_without_kubelet("b")


def test_a_drain_evicts_what_else_the_run_has_there_and_minds_none_that_went_by_itself(
    server: Server, machines: Machines
) -> None:
    server.others = [pod("beside", "a"), pod("evaluator", "a"), pod("evaluator", "c")]
    server.vanished = "beside-a"
    machines.drain("injection-0", on(server, "a"))
    assert server.evicted == ["learner-a", "evaluator-a"]


@pytest.mark.parametrize(("links", "machine", "is_hit"), [
    (("learner-a",), "a", True), (("learner-a",), "b", False), ((), "a", False),
])  # fmt: skip
def test_learners_beside_the_proxy_of_their_links_are_left_alone(
    server: Server, tmp_path: Path, links: Sequence[str], machine: str, *, is_hit: bool
) -> None:
    made = SimpleNamespace(links=dict.fromkeys(links))
    fleet = KubernetesFleet(
        tmp_path, WallClock(), undo_log=Remembered(), cluster=cast("Cluster", server),
        settings=PodSettings(image="node:1"), start_s=60.0, lease_s=LEASE_S,
        node_links=cast("NodeLinks", made),
    )  # fmt: skip
    (life,) = on(server, "a")
    fleet._specs["learner-a"], fleet._lives["learner-a"] = life.spec, life
    server.others = [pod("beside", "a"), pod("proxy", machine)]
    if is_hit:
        with pytest.raises(FleetError, match="proxy"):
            fleet.beside("learner-a")
    else:
        assert fleet.beside("learner-a") == ("learner-a",)
