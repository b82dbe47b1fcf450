"""CPU limits of pods: what is asked of the cluster, what it may answer, and how it is undone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.kubernetes import cleanup, cpu_limit, names
from chaoslab.fleet.kubernetes.cluster import Cluster, pod_of
from chaoslab.fleet.kubernetes.cpu_limit import (
    CpuLimit,
    await_resized,
    limit_of,
    require_resizes,
    resize,
)
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import PODS, Resource
from chaoslab.fleet.kubernetes.undo_facts import PodLimitFacts
from chaoslab.fleet.run_name import run_name

WHOLE = CpuLimit(limit="2", request="2")


class OnePod(Cluster):
    """A cluster with one pod; its kubelet does what it is asked, unless it says something else."""

    def __init__(self, name: str = "one", *, can_resize: bool = True) -> None:
        self.name, self.can_resize, self.patched = name, can_resize, 0
        self.says: list[Json] = []
        """Conditions that the kubelet reports instead of doing it."""
        self.manifest: dict[str, Any] = {
            "metadata": {"name": name, "generation": 1},
            "spec": {"containers": [{"name": CONTAINER, "resources": resources(WHOLE)}]},
            "status": {"phase": "Running", "conditions": [], "containerStatuses": [{
                "name": CONTAINER, "ready": True, "image": "i", "imageID": "i", "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "resources": resources(WHOLE),
            }]},
        }  # fmt: skip

    def version(self) -> str:
        return "v1.34.4" if self.can_resize else "v1.31.0"

    def get(self, resource: Resource, name: str) -> Mapping[str, Json]:
        assert resource is PODS
        if name != self.name:
            raise Missing(f"no pod {name}")
        return self.manifest

    def pod(self, name: str) -> Any:
        return pod_of(self.get(PODS, name))

    def patch(
        self, resource: Resource, name: str, changes: Mapping[str, Json], *, kind: str = "merge"
    ) -> Mapping[str, Json]:
        assert (resource, kind) == (PODS, "strategic-merge")
        if name != f"{self.name}/resize" or not self.can_resize:
            raise Missing("the server could not find the requested resource")
        given: Any = changes
        (asked,) = given["spec"]["containers"]
        assert asked["name"] == CONTAINER
        self.patched += 1
        self.manifest["metadata"]["generation"] += 1
        self.manifest["spec"]["containers"][0]["resources"] = asked["resources"]
        self.manifest["status"]["conditions"] = list(self.says)
        if not self.says:
            self.manifest["status"]["containerStatuses"][0]["resources"] = asked["resources"]
        return self.manifest

    def close(self) -> None:
        """It stays."""


def resources(limit: CpuLimit) -> dict[str, dict[str, str]]:
    return {"limits": {"cpu": limit.limit}, "requests": {"cpu": limit.request}}


def pending(reason: str, **more: Json) -> Json:
    return {"type": "PodResizePending", "status": "True", "reason": reason,
            "message": "not enough capacity", **more}  # fmt: skip


@pytest.mark.parametrize(("limit", "request_", "cores", "lowered"), [
    ("2", "2", 0.5, ("500m", "500m")),  # equal stays equal: the class of service may not change
    ("2", "1", 0.5, ("500m", "499m")),  # and unequal unequal
    ("2", "100m", 0.5, ("500m", "100m")),
    ("2", "0", 1.0, ("1", "0")),
    ("1500m", "1500m", 9.0, ("1500m", "1500m")),  # never more than it had
    ("1", "1", 0.0001, ("10m", "10m")),  # nor less than the kernel takes
])  # fmt: skip
def test_a_lower_limit_takes_the_request_with_it_as_little_as_need_be(
    limit: str, request_: str, cores: float, lowered: tuple[str, str]
) -> None:
    found = CpuLimit(limit=limit, request=request_).lowered(cores)
    assert (found.limit, found.request) == lowered


@pytest.mark.parametrize("given", [{}, {"limits": {"memory": "1Gi"}}, {"limits": {"cpu": "1k"}}])
def test_without_a_limit_there_is_nothing_to_lower(given: dict[str, Any]) -> None:
    cluster = OnePod()
    cluster.manifest["spec"]["containers"][0]["resources"] = given
    with pytest.raises(FleetError, match="pod one"):
        limit_of(cluster.get(PODS, "one"))


def test_what_it_said_of_an_earlier_resize_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limit, "_RESIZED_S", 0.0)
    cluster = OnePod()
    cluster.says = [pending("Deferred", observedGeneration=1)]
    resize(cluster, "one", WHOLE.lowered(0.5))
    with pytest.raises(FleetError, match="one"):
        await_resized(cluster, "one", WHOLE.lowered(0.5))


def test_a_server_that_resizes_no_pods_is_told_from_a_pod_that_is_gone() -> None:
    old = OnePod(can_resize=False)
    with pytest.raises(FleetError, match=r"1\.33"):
        require_resizes(old)
    with pytest.raises(FleetError, match=r"1\.33"):
        resize(old, "one", WHOLE)
    with pytest.raises(Missing, match="another"):
        resize(OnePod(), "another", WHOLE)
    require_resizes(OnePod())


def test_a_limit_that_was_lowered_is_restored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = f"chaoslab-{run_name(tmp_path)}-learner-0-1-x7k2p"
    cluster = OnePod(pod)
    monkeypatch.setattr(cleanup, "connect_again", lambda *_: cluster)
    facts = PodLimitFacts(
        directory=tmp_path, server="s", context="c", namespace="chaos", pod=pod, limit="2",
        request="2",
    )  # fmt: skip
    assert cleanup.undo(names.UNLIMIT_POD, facts) == ()
    assert cluster.patched == 0, "it has all of its limit"
    resize(cluster, pod, WHOLE.lowered(0.5))
    for told in (cleanup.left(names.UNLIMIT_POD, facts), cleanup.undo(names.UNLIMIT_POD, facts)):
        assert len(told) == 1
        assert pod in told[0]
    assert limit_of(cluster.get(PODS, pod)) == WHOLE
    assert cleanup.left(names.UNLIMIT_POD, facts) == ()
    cluster.name = "another"  # its pod is gone
    assert cleanup.undo(names.UNLIMIT_POD, facts) == ()
