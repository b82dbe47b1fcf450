"""CPU limits of pods: what the cluster is asked, which undo entry is open, how it is undone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes import cleanup, cpu_limit, names
from chaoslab.fleet.kubernetes.cpu_limit import (
    CpuLimit,
    await_resized,
    limit_of,
    require_resizes,
    resize,
)
from chaoslab.fleet.kubernetes.manifests import CONTAINER
from chaoslab.fleet.kubernetes.pod import PodIncarnation
from chaoslab.fleet.kubernetes.refusals import Missing
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.stress_drivers import Quota
from chaoslab.fleet.kubernetes.undo_facts import PodLimitFacts
from chaoslab.fleet.run_name import run_name
from chaoslab.fleet.stress.registry import Wish
from chaoslab.fleet.stressors import Mechanism, Slowness
from chaoslab.undo.base import PendingUndos
from tests.fleet.kubernetes.fake_cluster import FakeCluster, pod
from tests.fleet.local_stage import Remembered

WHOLE = CpuLimit(limit="2", request="2")
SPEC = NodeSpec(name="learner-1", role=Role.LEARNER, command=("true",), labels={})
SLOW = Slowness(factor=2.0, mechanism=Mechanism.CGROUP)


class OnePod(FakeCluster):
    """Its kubelet resizes its pod as it is asked, unless it says something else."""

    def __init__(self, name: str = "one") -> None:
        super().__init__(pod(name, conditions=[]))
        self.name, self.release, self.says = name, "v1.34.4", list[Json]()
        (self.status,) = self.manifest["status"]["containerStatuses"]
        self.manifest["metadata"]["generation"] = 1
        whole = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
        self.manifest["spec"]["containers"] = [{"name": CONTAINER, "resources": whole}]

    @property
    def manifest(self) -> dict[str, Any]:
        return self.objects[f"pods/{self.name}"]

    @property
    def limit(self) -> CpuLimit:
        return limit_of(self.manifest)

    def version(self) -> str:
        return self.release

    def patch(
        self, resource: Resource, name: str, changes: Mapping[str, Any], *, kind: str = "merge"
    ) -> Mapping[str, Any]:
        assert kind == "strategic-merge"
        if name != f"{self.name}/resize" or "31" in self.release:
            raise Missing("the server could not find the requested resource")
        self.calls.append("resize")
        (asked,) = changes["spec"]["containers"]
        self.manifest["metadata"]["generation"] += 1
        self.manifest["spec"]["containers"] = [asked]
        self.manifest["status"]["conditions"] = list(self.says)
        if not self.says:
            self.status["resources"] = asked["resources"]
        return self.manifest


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
        limit_of(cluster.manifest)


def test_what_it_said_of_an_earlier_resize_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limit, "_RESIZED_S", 0.0)
    cluster = OnePod()
    cluster.says = [pending("Deferred", observedGeneration=1)]
    resize(cluster, "one", WHOLE.lowered(0.5))
    with pytest.raises(FleetError, match="one") as late:
        await_resized(cluster, "one", WHOLE.lowered(0.5))
    assert "Deferred" not in str(late.value)


def test_a_server_that_resizes_no_pods_is_told_from_a_pod_that_is_gone() -> None:
    old, new = OnePod(), OnePod()
    old.release = "v1.31.0"
    for ask in (lambda: require_resizes(old), lambda: resize(old, "one", WHOLE)):
        with pytest.raises(FleetError, match=r"1\.33"):
            ask()
    require_resizes(new)
    with pytest.raises(Missing):
        resize(new, "another", WHOLE)


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
    assert cluster.calls == [], "it has all of its limit"
    resize(cluster, pod, WHOLE.lowered(0.5))
    for told in (cleanup.left(names.UNLIMIT_POD, facts), cleanup.undo(names.UNLIMIT_POD, facts)):
        assert len(told) == 1
        assert pod in told[0]
    assert cluster.limit == WHOLE
    assert cleanup.left(names.UNLIMIT_POD, facts) == ()
    cluster.objects.clear()
    assert cleanup.undo(names.UNLIMIT_POD, facts) == ()


# ---------------------------------------------------------------- as a stressor


@dataclass(kw_only=True)
class Life:
    """A pod whose cgroup counts a second of throttling at each look."""

    cluster: OnePod = field(default_factory=OnePod)
    log: Remembered = field(default_factory=Remembered)
    spec: NodeSpec = SPEC
    pod: str = "one"
    has_exited: bool = False
    is_measured: bool = True
    looks: int = 0

    def __post_init__(self) -> None:
        self.pending_undos = PendingUndos(self.log)
        self.open_undo = self.pending_undos.open

    def cpu_used(self) -> tuple[float, float] | None:
        return (9.0, 9.0) if self.is_measured else None

    def execute(self, _: object) -> str:
        self.looks += 1
        return f"uptime 9.0\nusage_usec 1\nthrottled_usec {self.looks * 1_000_000}\n"


def quota(life: Life) -> Quota:
    """On a node that used one core."""
    pod = cast("PodIncarnation", life)
    wish = Wish(life=pod, injection="injection-0", stressor=SLOW, calm_cores=1.0, others=())
    return Quota(pod, cast("Any", wish), SLOW)


def test_the_entry_of_a_limit_is_open_before_it_is_lowered_and_until_it_is_restored() -> None:
    life = Life()
    driver = quota(life)
    driver.begin()
    assert life.log.opened == [{"do": "unlimit_pod", "limit": "2", "request": "2"}]
    assert life.cluster.limit.limit == "500m"
    assert driver.counts() == {"cores": 0.5, "throttled_s": 1.0}
    driver.set(Slowness(factor=4.0))
    assert life.cluster.limit.limit == "250m"
    driver.end()
    driver.end()
    assert life.cluster.limit == WHOLE
    assert life.log.closed == [0]


def test_a_limit_that_the_kubelet_does_not_lower_is_an_error_and_is_taken_back() -> None:
    life = Life()
    driver = quota(life)
    life.cluster.says = [pending("Infeasible")]
    with pytest.raises(FleetError, match="Infeasible: not enough capacity"):
        driver.begin()
    life.cluster.says = []
    driver.end()  # as the registry does
    assert life.cluster.limit == WHOLE
    assert life.log.closed == [0]


def test_a_limit_that_the_kubelet_does_not_restore_yet_keeps_its_entry() -> None:
    life = Life()
    driver = quota(life)
    driver.begin()
    life.cluster.says = [pending("Deferred")]
    with pytest.raises(FleetError, match="Deferred"):
        driver.end()
    life.has_exited = True  # and its limit is gone with it
    driver.end()
    assert life.log.closed == []


def test_what_is_not_measured_is_not_cut() -> None:
    with pytest.raises(FleetError, match="learner-1"):
        quota(Life(is_measured=False))
