"""Workers in the pods of a namespace: which pod is which, before and after it was replaced."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.errors import AbilityError
from chaoslab.fleet.attached.worker_pods import WorkerPods
from chaoslab.fleet.kubernetes.cluster import Cluster


def pod(
    name: str, owner: str = "StatefulSet o", *, policy: str = "Always", **labels: object
) -> dict[str, Any]:
    kind, _, of = owner.partition(" ")
    owners = [{"kind": kind, "name": of, "controller": True, "uid": "o", "apiVersion": "v1"}]
    running = {"name": "main", "image": "i", "imageID": "i@1", "ready": True, "restartCount": 0,
               "containerID": f"containerd://{name}-{labels}", "lastState": {},
               "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}  # fmt: skip
    return {
        "metadata": {"name": name, "uid": name, "ownerReferences": owners if owner else [],
                     "labels": {key: str(value) for key, value in labels.items()}},
        "spec": {"containers": [{"name": "main"}], "restartPolicy": policy},
        "status": {"phase": "Running", "containerStatuses": [running]},
    }  # fmt: skip


class Pods:
    """A cluster that shows pods, each with a program of its own."""

    namespace, is_closing = "team", False

    def __init__(self, *pods: dict[str, Any], pid: int = 7) -> None:
        self.pods, self._pid = list(pods), pid

    def list(self, _: object, selector: str) -> tuple[Sequence[Mapping[str, Any]], str]:
        assert selector == "app=trainer"
        return self.pods, "1"

    def exec(self, _: str, command: Sequence[str], *, container: str) -> str:
        assert (list(command[-2:]), container) == (["find", "main"], "main")
        return json.dumps({"nodes": [{"pid": self._pid, "ticks": 1, "words": ["train"]}]})

    @property
    def search(self) -> WorkerPods:
        return WorkerPods(cast("Cluster", self), "app=trainer")


def test_workers_are_numbered_as_their_owner_numbers_its_pods() -> None:
    index = "training.kubeflow.org/replica-index"
    kind = "training.kubeflow.org/replica-type"
    day = Pods(
        pod("x-worker-10", "PyTorchJob x", **{kind: "worker", index: 10}),
        pod("x-worker-9", "PyTorchJob x", **{kind: "worker", index: 9}),
        pod("x-master-0", "PyTorchJob x", **{kind: "master", index: 0}),
    )
    nodes, found = day.search.training()
    assert [node.pod for node in nodes] == ["x-master-0", "x-worker-9", "x-worker-10"]
    assert [one.name for one in found] == ["worker-0", "worker-1", "worker-2"]


def test_the_leader_of_a_group_comes_before_its_workers_whoever_owns_them() -> None:
    group, worker = (f"leaderworkerset.sigs.k8s.io/{of}-index" for of in ("group", "worker"))
    day = Pods(
        pod("x-0-1", "StatefulSet x-0", **{group: 0, worker: 1}),
        pod("x-1", "StatefulSet x", **{group: 1, worker: 0}),
        pod("x-0", "StatefulSet x", **{group: 0, worker: 0}),
    )
    assert [node.pod for node in day.search.training()[0]] == ["x-0", "x-0-1", "x-1"]


def test_the_jobs_of_a_set_are_counted_through() -> None:
    whole, own = (f"jobset.sigs.k8s.io/job-{of}" for of in ("global-index", "index"))
    day = Pods(
        pod("x-b-0-0", "Job x-b-0", **{whole: 2, own: 0}),
        pod("x-a-1-0", "Job x-a-1", **{whole: 1, own: 1}),
        pod("x-a-0-0", "Job x-a-0", **{whole: 0, own: 0}),
    )
    assert [node.pod for node in day.search.training()[0]] == ["x-a-0-0", "x-a-1-0", "x-b-0-0"]


@pytest.mark.parametrize(
    ("owner", "label", "later"),
    [
        ("Job train", "batch.kubernetes.io/job-completion-index", "train-1-xyz"),
        ("JobSet j", "jobset.sigs.k8s.io/job-index", "j-1-xyz"),
        ("RayCluster ray", "", "ray-worker-xyz"),  # numbers none
    ],
)
def test_a_worker_comes_back_in_another_pod_of_its_owner(
    owner: str, label: str, later: str
) -> None:
    labels = [{label: rank} if label else {} for rank in (0, 1)]
    day = Pods(pod("first-0", owner, **labels[0]), pod("first-1", owner, **labels[1]))
    search = day.search
    nodes, _ = search.training()
    assert search.replacement(nodes[1]) is None  # it still runs
    day.pods[1] = pod("stranger", "Job other")
    assert search.replacement(nodes[1]) is None
    day.pods[1] = pod(later, owner, **labels[1])
    found = search.replacement(nodes[1])
    assert found is not None
    assert (found.name, found.pod) == ("worker-1", later)
    assert search.replacement(found) is None


def test_a_first_process_is_told_and_a_pod_that_nobody_replaces_refused() -> None:
    _, (found,) = Pods(pod("a"), pid=1).search.training()
    assert found.is_first
    for cluster in (Pods(), Pods(pod("a", owner="", policy="Never"))):
        with pytest.raises(AbilityError):
            cluster.search.training()
