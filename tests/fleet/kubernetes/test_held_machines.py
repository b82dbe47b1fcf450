"""What drains of machines ask of a cluster, and what they refuse to do to a run."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.fleet import KubernetesFleet
from chaoslab.fleet.kubernetes.machines import Machines
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.pod_state import PodState
from chaoslab.fleet.kubernetes.pods import RunContext, Setup
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.run_objects import RunObjects
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.run_name import run_name
from tests.engine import learner
from tests.fleet.kubernetes.fake_cluster import FakeCluster, pod
from tests.fleet.local_stage import Remembered


class Held(PodIncarnation):
    """A learner's pod that runs on a machine."""

    has_exited = False

    def __init__(self, server: FakeCluster, machine: str) -> None:
        self.cluster, self.spec, self.incarnation = server, learner(f"learner-{machine}"), 1
        self.is_ending, self.is_over, self._sent = False, False, []
        self._state = PodState(name=self.spec.name, machine=machine, started_s=1.0)

    def await_start(self) -> None:
        """It has started."""


@pytest.fixture
def server() -> Iterator[FakeCluster]:
    """It has two machines."""
    found = FakeCluster()
    for name in "ab":
        found.objects[f"nodes/{name}"] = {}
    yield found
    found.is_closing = True


@pytest.fixture
def machines(server: FakeCluster, tmp_path: Path) -> Machines:
    undo_log = Remembered()
    objects = RunObjects(server, tmp_path, undo_log, PodSettings(image="node:1"), 60.0)
    return Machines(RunContext(
        run_directory=tmp_path, clock=WallClock(), undo_log=undo_log, run_objects=objects,
        arrivals=queue.Queue(), start_s=60.0,
    ))  # fmt: skip


def test_a_drain_evicts_what_else_the_run_has_there_and_minds_none_that_went_by_itself(
    server: FakeCluster, machines: Machines, tmp_path: Path
) -> None:
    own = {"chaoslab/run": run_name(tmp_path)}
    for name, at, labels in (
        ("beside", "a", own), ("evaluator", "a", own), ("far", "b", own), ("other", "a", {}),
    ):  # fmt: skip
        server.objects[f"pods/{name}"] = pod(name, machine=at, labels=labels)
    server.refuses["evict pods/beside"] = Missing("gone")
    machines.drain("injection-0", [Held(server, "a")])
    assert server.calls == [
        "patch nodes/a", "evict pods/learner-a", "evict pods/beside", "evict pods/evaluator",
    ]  # fmt: skip
    assert server.objects["nodes/a"]["spec"]["unschedulable"] is True
    machines.close()
    assert server.objects["nodes/a"]["spec"] == {}


@pytest.fixture
def fleet_of(server: FakeCluster, tmp_path: Path) -> Callable[..., KubernetesFleet]:
    """A fleet whose learner and proxy are on these machines."""

    def make(learner_at: str, proxy_at: str, *links: str) -> KubernetesFleet:
        made = SimpleNamespace(links=dict.fromkeys(links))
        fleet = KubernetesFleet(
            tmp_path, WallClock(), undo_log=Remembered(), cluster=server,
            setup=Setup(pods=PodSettings(image="node:1"), start_s=60.0, lease_s=60.0),
            node_links=cast("NodeLinks", made),
        )  # fmt: skip
        life = Held(server, learner_at)
        fleet._specs[life.spec.name], fleet._lives[life.spec.name] = life.spec, life
        job = {"job-name": fleet._objects.manifests.name("proxy")}
        server.objects["pods/proxy"] = pod("proxy", machine=proxy_at, labels=job)
        return fleet

    return make


def test_learners_beside_the_proxy_of_their_links_are_left_alone(
    fleet_of: Callable[..., KubernetesFleet],
) -> None:
    with pytest.raises(FleetError, match="proxy"):
        fleet_of("a", "a", "learner-a").beside("learner-a")
    assert fleet_of("a", "b", "learner-a").beside("learner-a") == ("learner-a",)
    assert fleet_of("a", "a").beside("learner-a") == ("learner-a",)
