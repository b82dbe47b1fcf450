"""Pods of a training of the user's own, whoever makes them: each is known by its rank, and found
again in the place of the one that ended.

Of a Job, a JobSet, a Deployment and the StatefulSets of a group the cluster's own controllers make
pods again; of a PyTorchJob, a RayCluster and a Volcano Job a stand-in does, with the labels, names
and owners that their operators give. An indexed Job: `test_attach_pods`.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import CONTEXT
from tests.trainer_pods import (
    NAMESPACE,
    PATIENCE_S,
    await_steps,
    broken_by,
    deploy,
    names,
    require_pass,
    require_return,
    shared,
    trainer_namespace,
)

if TYPE_CHECKING:
    from lightkube import Client

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]

INDEX = "jobset.sigs.k8s.io/job-index"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Client]":
    with trainer_namespace(monkeypatch) as made:
        yield made


def job() -> dict[str, Any]:
    """A Job of one pod, which gets another one when that fails."""
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "trainer"},
        "spec": {"backoffLimit": 20, "template": shared({"value": "0"})},
    }  # fmt: skip


def deployment() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "trainer"},
        "spec": {"selector": {"matchLabels": {"app": "trainer"}},
                 "template": shared({"value": "0"}, "Always")},
    }  # fmt: skip


def job_set() -> dict[str, Any]:
    """Two Jobs, each of which is made anew alone when it fails."""
    by_label = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
    one = {"spec": {"backoffLimit": 0, "template": shared(by_label)}}
    alone = {"name": "restartAlone", "action": "RestartJobAndIgnoreMaxRestarts"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "trainer"},
        "spec": {"network": {"enableDNSHostnames": False},
                 "failurePolicy": {"maxRestarts": 0, "rules": [alone]},
                 "replicatedJobs": [{"name": "w", "replicas": 2, "template": one}]},
    }  # fmt: skip


def of_group(name: str, start: int) -> dict[str, Any]:
    """A StatefulSet of a LeaderWorkerSet: of the leader of group 0, or of its workers."""
    kind = "leaderworkerset.sigs.k8s.io/"
    labels = {"app": "trainer", f"{kind}name": "trainer", f"{kind}group-index": "0",
              f"{kind}worker-index": str(start)}  # fmt: skip
    pod = shared({"value": str(start)}, "Always")
    pod["metadata"]["labels"] = labels
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {"serviceName": "trainer", "replicas": 1, "ordinals": {"start": start},
                 "selector": {"matchLabels": labels}, "template": pod},
    }  # fmt: skip


# ---------------------------------------------------------------- owners with their own controller


@pytest.mark.parametrize(
    ("manifest", "fault"), [(job, "process.kill"), (deployment, "pod.delete, how: evict")]
)
def test_the_only_pod_of_an_owner_that_numbers_none_comes_back_as_another(
    client: "Client", tmp_path: Path, manifest: Any, fault: str
) -> None:
    deploy(client, manifest(), pods=1)
    (before,) = names()
    require_return(broken_by(fault, tmp_path, ("worker-1", "worker-0")))
    await_steps(client, 1)
    assert names() != [before]


def test_a_job_of_a_set_is_made_anew_and_its_worker_keeps_its_rank(
    client: "Client", tmp_path: Path
) -> None:
    from lightkube.generic_resource import create_namespaced_resource  # noqa: PLC0415  # see above

    from chaoslab.fleet.kubernetes.cluster import Cluster  # noqa: PLC0415
    from tests.cluster import need_job_sets  # noqa: PLC0415

    with closing(Cluster.connect(CONTEXT, NAMESPACE)) as cluster:
        need_job_sets(cluster)
    create_namespaced_resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    deploy(client, job_set())
    before = names()
    assert [name.rpartition("-")[0] for name in before] == ["trainer-w-0-0", "trainer-w-1-0"]
    require_pass(broken_by("process.kill", tmp_path))
    await_steps(client, 2)
    now = names()
    assert [name.rpartition("-")[0] for name in now] == ["trainer-w-0-0", "trainer-w-1-0"]
    assert now[0] == before[0]
    assert now[1] != before[1]


# ---------------------------------------------------------------- owners by their labels alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What makes pods of a kind that the cluster does not know."""

    group: str
    version: str
    kind: str
    pods: tuple[tuple[str, Mapping[str, str]], ...]
    """Name, or its beginning, and labels of each, in the order of the ranks."""

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


_KUBEFLOW, _RAY, _VOLCANO = "training.kubeflow.org/", "ray.io/", "volcano.sh/"
OPERATORS = (
    Operator(
        group="kubeflow.org", version="v1", kind="PyTorchJob",
        pods=tuple(
            (f"trainer-{kind}-0", {f"{_KUBEFLOW}job-name": "trainer",
                                   f"{_KUBEFLOW}operator-name": "pytorchjob-controller",
                                   f"{_KUBEFLOW}replica-type": kind,
                                   f"{_KUBEFLOW}replica-index": "0"})
            for kind in ("master", "worker")
        ),
    ),
    Operator(
        group="ray.io", version="v1", kind="RayCluster",
        pods=tuple(
            (f"trainer-{name}-", {f"{_RAY}cluster": "trainer", f"{_RAY}is-ray-node": "yes",
                                  f"{_RAY}node-type": kind, f"{_RAY}group": group})
            for name, kind, group in (("head", "head", "headgroup"),
                                      ("small-worker", "worker", "small"))
        ),
    ),
    Operator(
        group="batch.volcano.sh", version="v1alpha1", kind="Job",
        pods=tuple(
            (f"trainer-worker-{rank}", {f"{_VOLCANO}job-name": "trainer",
                                        f"{_VOLCANO}task-spec": "worker",
                                        f"{_VOLCANO}task-index": str(rank)})
            for rank in range(2)
        ),
    ),
)  # fmt: skip


@contextmanager
def stands_in(client: "Client", of: Operator) -> Iterator[None]:
    """An operator's object, and its pods, each of which is made again when it is gone or failed."""
    from lightkube import ApiError  # noqa: PLC0415  # see above
    from lightkube.codecs import from_dict  # noqa: PLC0415
    from lightkube.resources.apiextensions_v1 import (  # noqa: PLC0415
        CustomResourceDefinition,
    )
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415

    name, is_over = f"{of.plural}.{of.group}", threading.Event()
    client.create(from_dict(definition(of, name)))
    try:
        owner = {"apiVersion": f"{of.group}/{of.version}", "kind": of.kind, "name": "trainer",
                 "uid": made(client, of), "controller": True}  # fmt: skip

        def make_missing() -> None:
            there = set()
            for pod in client.list(Pod, labels={"app": "trainer"}):
                assert pod.metadata is not None
                if pod.status is not None and pod.status.phase in ("Failed", "Succeeded"):
                    client.delete(Pod, str(pod.metadata.name), grace_period=0)
                else:
                    there.add((pod.metadata.labels or {}).get("seat"))
            for rank, (pod_name, labels) in enumerate(of.pods):
                if str(rank) not in there:
                    pod = shared({"value": str(rank)})
                    key = "generateName" if pod_name.endswith("-") else "name"
                    pod["metadata"] = {
                        key: pod_name, "ownerReferences": [owner],
                        "labels": {"app": "trainer", "seat": str(rank), **labels},
                    }  # fmt: skip
                    client.create(from_dict({"apiVersion": "v1", "kind": "Pod", **pod}))

        def keep() -> None:
            while not is_over.wait(0.5):
                with suppress(ApiError):  # the last one of this name is still there
                    make_missing()

        thread = threading.Thread(target=keep)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
    finally:
        client.delete(CustomResourceDefinition, name)


def definition(of: Operator, name: str) -> dict[str, Any]:
    """A kind whose objects may have any fields."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": of.version, "served": True, "storage": True,
               "schema": {"openAPIV3Schema": anything}}  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": of.group, "scope": "Namespaced", "versions": [version],
                 "names": {"plural": of.plural, "singular": of.kind.lower(), "kind": of.kind}},
    }  # fmt: skip


def made(client: "Client", of: Operator) -> str:
    """Unique id of its object, once the cluster knows its kind."""
    from httpx2 import HTTPStatusError  # noqa: PLC0415  # see above
    from lightkube.generic_resource import create_namespaced_resource  # noqa: PLC0415

    resource = create_namespaced_resource(of.group, of.version, of.kind, of.plural)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = client.create(resource({"metadata": {"name": "trainer"}}))
            return str(found.metadata and found.metadata.uid)
        except HTTPStatusError:
            assert time.monotonic() < deadline
            time.sleep(0.5)


@pytest.mark.parametrize("of", OPERATORS, ids=lambda of: of.kind)
def test_a_worker_of_an_operator_is_named_by_its_rank_and_comes_back(
    client: "Client", tmp_path: Path, of: Operator
) -> None:
    deploy(client, pods=0)
    with stands_in(client, of):
        await_steps(client, 2)
        assert [name.startswith(of.pods[rank][0]) for rank, name in enumerate(names())] == [
            True
        ] * 2
        require_pass(broken_by("process.kill", tmp_path))
        await_steps(client, 2)


def test_a_leader_comes_before_its_worker_and_both_keep_their_names(
    client: "Client", tmp_path: Path
) -> None:
    deploy(client, of_group("trainer", 0), of_group("trainer-0", 1))
    assert names() == ["trainer-0", "trainer-0-1"]
    require_pass(broken_by("pod.delete, how: evict", tmp_path))
    await_steps(client, 2)
    assert names() == ["trainer-0", "trainer-0-1"]
