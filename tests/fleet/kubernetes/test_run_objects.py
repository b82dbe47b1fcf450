"""All objects of a run are deleted, and who cannot be is named once nothing goes any more."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes import pod_state, run_objects
from chaoslab.fleet.kubernetes.manifests import PodSettings
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.run_objects import RunObjects, empty
from chaoslab.undo.base import NoUndoLog
from tests.fleet.kubernetes.fake_cluster import FakeCluster, ended, pod, waiting


class Slow(FakeCluster):
    """Its objects go some looks after their deletion."""

    def __init__(self, there: Mapping[str, int]) -> None:
        """By path: for how many looks more it is there, once it was deleted."""
        super().__init__()
        self.left = dict(there)

    def list(self, resource: Resource, *_: object, **__: object) -> Any:
        mine = [path for path in self.left if path.startswith(f"{resource.plural}/")]
        for path in mine:
            self.left[path] -= f"delete {path}" in self.calls
        found = [{"metadata": {"name": path.split("/")[1]}} for path in mine if self.left[path] > 0]
        self.left = {path: looks for path, looks in self.left.items() if looks > 0}
        return found, "1"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_objects, "_LOOK_S", 0.0)


def test_each_object_is_deleted_once_while_the_cluster_takes_its_time() -> None:
    kinds = ("jobs", "pods", "persistentvolumeclaims")
    there = {f"{kind}/learner-{n}": n for kind in kinds for n in (1, 2, 9)}
    objects = Slow({"jobs/chaoslab-r": 1, **there})
    was = empty(objects, "r")
    assert len(was) == 10
    assert "pod learner-9" in was
    assert objects.left == {}
    assert [objects.calls.count(f"delete {path}") for path in there] == [1] * len(there)


def test_job_sets_are_looked_for_only_where_the_run_has_made_some() -> None:
    there = {"jobsets/chaoslab-r": 1, "jobs/chaoslab-r-learner-0-0": 1, "jobs/chaoslab-r": 1}
    jobs = ("job chaoslab-r-learner-0-0", "job chaoslab-r")
    without_crd = Slow(there)
    without_crd.has_job_sets = False
    assert empty(Slow(there), "r") == jobs
    assert empty(Slow(there), "r", has_job_sets=True) == ("jobset chaoslab-r", *jobs)
    assert empty(without_crd, "r", has_job_sets=True) == jobs


def test_it_goes_on_as_long_as_objects_go_and_names_what_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_objects, "_GONE_S", 0.0)
    objects = Slow({"jobs/chaoslab-r": 1, **{f"jobs/learner-{n}": n for n in range(1, 20)}})
    empty(objects, "r")
    assert objects.left == {}
    with pytest.raises(FleetError, match=r"chaos .*secret learner-0$"):
        empty(Slow({"jobs/chaoslab-r": 1, "secrets/learner-0": 10**9}), "r")


@pytest.mark.parametrize(("state", "within_s", "why"), [
    (ended(0), 60.0, ""), (ended(1), 60.0, "said"),
    (waiting("ContainerCreating"), 0.01, "0\\.01 s"),
    (waiting("CreateContainerError"), 60.0, "CreateContainerError"),
])  # fmt: skip
def test_a_job_beside_a_node_is_gone_whatever_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Mapping[str, Any], within_s: float,
    why: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(pod_state, "HOPELESS_S", 0.0)
    server = FakeCluster()
    objects = RunObjects(server, tmp_path, NoUndoLog(), PodSettings(image="node:1"), 60.0)
    job = {"job-name": objects.manifests.name("learner-0", "beside", "1")}
    server.objects["pods/p"], server.logs["p"] = pod("p", state, labels=job), [b"said"]
    if why:
        with pytest.raises(FleetError, match=why):
            objects.run_beside("learner-0", ["damage"], within_s)
    else:
        assert objects.run_beside("learner-0", ["damage"], within_s) == "said"
    assert server.of("jobs") == []
