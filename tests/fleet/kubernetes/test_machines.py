"""Machines of a cluster: cordons of a run, and what the cluster says of them."""

import queue

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import cordon, machines
from chaoslab.fleet.kubernetes.machines import MachineWatch, Whose
from chaoslab.fleet.nodes.arrivals import Arrivals
from tests.fleet.kubernetes.fake_cluster import FakeCluster

CORDONED = "node.kubernetes.io/unschedulable"


@pytest.fixture
def cluster() -> FakeCluster:
    """It has one machine."""
    found = FakeCluster()
    found.objects["nodes/one"] = {"metadata": {"name": "one"}, "spec": {}}
    return found


def test_a_cordon_is_undone_by_the_run_that_asked_for_it_and_no_other(cluster: FakeCluster) -> None:
    machine = cluster.objects["nodes/one"]
    cordon.require_free(cluster, "one")
    cordon.cordon(cluster, "one", "3fa9")
    assert machine["spec"] == {"unschedulable": True}
    assert not cordon.uncordon(cluster, "one", "another")
    assert cordon.is_cordoned_by(cluster, "one", "3fa9")
    assert cordon.uncordon(cluster, "one", "3fa9")
    assert not cordon.uncordon(cluster, "one", "3fa9"), "however often"
    assert (machine["spec"], machine["metadata"]["annotations"]) == ({}, {})
    assert not cordon.uncordon(cluster, "two", "3fa9"), "it is gone"


def test_a_machine_that_somebody_else_cordoned_is_left_alone(cluster: FakeCluster) -> None:
    cluster.objects["nodes/one"]["spec"]["unschedulable"] = True
    with pytest.raises(FleetError, match="one"):
        cordon.require_free(cluster, "one")
    assert not cordon.uncordon(cluster, "one", "3fa9")
    assert cluster.objects["nodes/one"]["spec"] == {"unschedulable": True}


# ---------------------------------------------------------------- what the cluster says


def test_a_cordon_is_told_of_each_node_by_the_taint_of_the_clusters_controllers(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "_LOOK_S", 0.0)
    arrivals: Arrivals = queue.Queue()
    nodes = [Whose("learner-0", 1), Whose("learner-1", 2)]
    machine = cluster.objects["nodes/one"]

    def told_of(*taints: str) -> list[dict[str, Json]]:
        machine["spec"] = {"taints": [{"key": one, "effect": "NoSchedule"} for one in taints]}
        told = [arrivals.get(timeout=60.0).observe() for _ in nodes]
        return [{**seen.data} for (seen,) in told]

    watch = MachineWatch(cluster, "one", nodes, arrivals)
    try:
        for taints, action in ((("other", CORDONED), "cordon"), (("other",), "uncordon")):
            found = told_of(*taints)
            assert [(one["node"], one["incarnation"]) for one in found] == nodes
            assert {(one["action"], one["machine"]) for one in found} == {(action, "one")}
    finally:
        watch.close()
        cluster.is_closing = True
