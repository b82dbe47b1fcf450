"""All objects of a run are deleted, and who cannot be is named once nothing goes any more."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from lightkube.models.core_v1 import Pod

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import pod_state, run_objects
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import CLAIMS, JOB_SETS, JOBS, PODS, Resource
from chaoslab.fleet.kubernetes.run_objects import RunObjects, empty
from chaoslab.undo.base import NoUndoLog


class Objects:
    """A namespace whose objects go some looks after their deletion."""

    context, namespace = "here", "chaos"

    def __init__(self, there: Mapping[str, int]) -> None:
        """By path and name: for how many looks more it is there, once it was deleted."""
        self.there = dict(there)
        self.deleted: list[str] = []
        self.forced: set[str] = set()
        self.is_served = True
        """Whether the CRD of JobSets is there."""

    def serves(self, resource: Resource) -> bool:
        assert resource is JOB_SETS
        return self.is_served

    def list(
        self, resource: Resource, selector: str, *, in_full: bool
    ) -> tuple[Sequence[Mapping[str, Json]], str]:
        assert (selector, in_full) == ("chaoslab/run=r", False)
        mine = [path for path in self.there if path.startswith(f"{resource.plural}/")]
        for path in mine:
            self.there[path] -= path in self.deleted
        found: list[Mapping[str, Any]] = [
            {"metadata": {"name": path.partition("/")[2]}} for path in mine if self.there[path] > 0
        ]
        self.there = {path: looks for path, looks in self.there.items() if looks > 0}
        return found, "1"

    def delete(self, resource: Resource, name: str, *, is_forced: bool = False) -> bool:
        path = f"{resource.plural}/{name}"
        if path not in self.there:
            raise Missing(path)
        self.deleted.append(path)
        if is_forced:
            self.forced.add(path)
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_objects, "_LOOK_S", 0.0)


def test_each_object_is_deleted_once_while_the_cluster_takes_its_time() -> None:
    there = {f"{one.plural}/learner-{n}": n for one in (JOBS, PODS, CLAIMS) for n in (1, 2, 9)}
    objects = Objects({"jobs/chaoslab-r": 1, **there})
    was = empty(cast("Cluster", objects), "r")
    assert len(was) == 10
    assert "pod learner-9" in was
    assert objects.there == {}
    assert sorted(set(there) & set(objects.deleted)) == sorted(there)
    assert [objects.deleted.count(path) for path in there] == [1] * len(there)
    assert objects.forced == {path for path in there if path.startswith("pods/")}


def test_job_sets_are_looked_for_only_where_the_run_has_made_some() -> None:
    there = {"jobsets/chaoslab-r": 1, "jobs/chaoslab-r-learner-0-0": 1, "jobs/chaoslab-r": 1}
    assert "jobset chaoslab-r" not in empty(cast("Cluster", Objects(there)), "r")
    was = empty(cast("Cluster", Objects(there)), "r", has_job_sets=True)
    assert was[0] == "jobset chaoslab-r"
    without_crd = Objects(there)
    without_crd.is_served = False
    was = empty(cast("Cluster", without_crd), "r", has_job_sets=True)
    assert was == ("job chaoslab-r-learner-0-0", "job chaoslab-r")


def test_it_goes_on_as_long_as_objects_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_objects, "_GONE_S", 0.0)
    there = {f"jobs/learner-{n}": n for n in range(1, 20)}
    empty(cast("Cluster", objects := Objects({"jobs/chaoslab-r": 1, **there})), "r")
    assert objects.there == {}


def test_what_does_not_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_objects, "_GONE_S", 0.0)
    objects = Objects({"jobs/chaoslab-r": 1, "secrets/learner-0": 10**9})
    with pytest.raises(FleetError, match=r"chaos .*secret learner-0$"):
        empty(cast("Cluster", objects), "r")


class Beside:
    """A cluster in which a Job runs beside a node's pod, as its pod is shown."""

    def __init__(self, **container: Any) -> None:
        state = {"name": "node", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        self.status = {"phase": "Pending", "containerStatuses": [{**state, "state": container}]}
        self.jobs: list[str] = []

    def create(self, manifest: Mapping[str, Any]) -> None:
        self.jobs.append(manifest["metadata"]["name"])

    def pods(self, selector: str) -> Sequence[Pod]:
        assert selector == f"job-name={self.jobs[-1]}"
        return [pod_of({"metadata": {"name": "p"}, "status": self.status})]

    def lines(self, *_: object, **__: object) -> Iterator[bytes]:
        yield b"said"

    def delete(self, resource: Resource, name: str) -> bool:
        assert resource is JOBS
        self.jobs.remove(name)
        return True


def ended(code: int) -> Mapping[str, Any]:
    at = "2026-11-27T10:00:00Z"
    return {"terminated": {"exitCode": code, "startedAt": at, "finishedAt": at}}


@pytest.mark.parametrize(("state", "within_s", "why"), [
    (ended(0), 60.0, ""), (ended(1), 60.0, "said"),
    ({"waiting": {"reason": "ContainerCreating"}}, 0.01, r"within 0\.01 s"),
    ({"waiting": {"reason": "CreateContainerError"}}, 60.0, "CreateContainerError"),
])  # fmt: skip
def test_a_job_beside_a_node_is_gone_whatever_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Mapping[str, Any], within_s: float,
    why: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(pod_state, "HOPELESS_S", 0.0)
    server, settings = Beside(**state), PodSettings(image="node:1")
    objects = RunObjects(cast("Cluster", server), tmp_path, NoUndoLog(), settings, 60.0)
    if why:
        with pytest.raises(FleetError, match=why):
            objects.run_beside("learner-0", ["damage"], within_s)
    else:
        assert objects.run_beside("learner-0", ["damage"], within_s) == "said"
    assert server.jobs == []
