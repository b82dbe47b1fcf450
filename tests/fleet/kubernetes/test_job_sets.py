"""JobSets: of which nodes, in which order, and where there are none."""

from collections.abc import Mapping
from dataclasses import replace
from queue import Queue
from typing import Any, cast

import pytest

pytest.importorskip("lightkube", reason="lightkube is missing")

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.kubernetes.job_set_choice import JobSetChoice, JobSetUse
from chaoslab.fleet.kubernetes.job_sets import EXCLUSIVE, JobSets, NodeJob, job_set
from chaoslab.fleet.kubernetes.job_watch import JobSetWatch, restarts_of
from chaoslab.fleet.kubernetes.manifests import Manifests, PodSettings
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.settings import ClusterFleets, Healer, Kubernetes
from chaoslab.fleet.nodes.arrivals import Arrivals, taken
from tests.fleet.kubernetes.fake_cluster import FakeCluster

SYNCER, *LEARNERS = [
    NodeSpec(name=name, role=role, command=("true",), keeps="state")
    for name, role in [
        ("syncer", Role.SYNCER), ("learner-0", Role.LEARNER), ("learner-1", Role.LEARNER),
    ]
]  # fmt: skip


def manifests(**settings: Any) -> Manifests:
    asked = PodSettings(image="node:1", replaces=True, in_job_sets=True, **settings)
    return Manifests(run="3fa9", directory="/runs/x", settings=asked, owner="uid-1")


def node_job(of: Manifests, spec: NodeSpec) -> NodeJob:
    return NodeJob(spec, of.node(spec, 1, spec.command, {}))


def made(of: Manifests, *specs: NodeSpec) -> Any:
    return job_set(of, of.name(), [node_job(of, spec) for spec in specs])


def test_a_job_that_fails_is_started_again_alone() -> None:
    found = made(manifests(), SYNCER, *LEARNERS)
    assert found["metadata"]["name"] == "chaoslab-3fa9"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", "uid-1")
    (rule,) = found["spec"]["failurePolicy"]["rules"]
    assert rule["action"] == "RestartJobAndIgnoreMaxRestarts"
    assert "onJobFailureReasons" not in rule
    for one in found["spec"]["replicatedJobs"]:
        spec = one["template"]["spec"]
        assert (spec["backoffLimit"], spec["completions"]) == (0, 1)
        assert one["template"]["metadata"]["labels"]["chaoslab/node"] == one["name"]
        assert "ownerReferences" not in one["template"]["metadata"]


# ---------------------------------------------------------------- manifest


def test_learners_wait_for_a_syncer_that_listens() -> None:
    first, *others = made(manifests(), *LEARNERS, SYNCER)["spec"]["replicatedJobs"]
    assert first["name"] == "syncer"
    assert "/proc/net/tcp" in str(first["template"]["spec"])
    assert [one["dependsOn"] for one in others] == 2 * [[{"name": "syncer", "status": "Ready"}]]
    (later,) = made(manifests(), LEARNERS[0])["spec"]["replicatedJobs"]
    for one in (others[0], later):
        assert "startupProbe" not in str(one["template"]["spec"])
    assert "dependsOn" not in str((first, later))


def test_learners_have_machines_to_themselves_where_the_plan_says_so() -> None:
    own = manifests(exclusive_topology="rack", labels={"kueue.x-k8s.io/queue-name": "tpus"})
    found = made(own, SYNCER, LEARNERS[0])
    syncer, learner = found["spec"]["replicatedJobs"]
    assert learner["template"]["metadata"]["annotations"] == {EXCLUSIVE: "rack"}
    assert "annotations" not in syncer["template"]["metadata"]
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpus"


def test_the_evaluator_is_in_no_job_set() -> None:
    settings = manifests().settings
    assert settings.puts_in_job_set(Role.SYNCER)
    assert not settings.puts_in_job_set(Role.EVALUATOR)
    assert not replace(settings, replaces=False).puts_in_job_set(Role.LEARNER)


# ---------------------------------------------------------------- JobSets of a run


def test_nodes_of_the_start_are_one_job_set_and_a_later_one_has_its_own() -> None:
    of, server = manifests(), FakeCluster()
    sets = JobSets(server, lambda: of)

    def put(spec: NodeSpec) -> str:
        job = sets.job_of(spec.name)
        sets.put(node_job(of, spec))
        return job

    with sets.gathering():
        assert put(SYNCER) == "chaoslab-3fa9-syncer-0"
        assert put(LEARNERS[0]) == "chaoslab-3fa9-learner-0-0"
        assert server.calls == []
    assert put(LEARNERS[1]) == "chaoslab-3fa9-learner-1-learner-1-0"
    assert [
        [job["name"] for job in one["spec"]["replicatedJobs"]] for one in server.of("jobsets")
    ] == [["syncer", "learner-0"], ["learner-1"]]
    assert sets.job_of("learner-0") == "chaoslab-3fa9-learner-0-0"
    assert sets.has("chaoslab-3fa9-learner-1-learner-1-0")
    assert not sets.has("chaoslab-3fa9-evaluator-1")
    sets.delete_job("chaoslab-3fa9-learner-0-0")
    assert server.calls[-1] == "delete jobs/chaoslab-3fa9-learner-0-0, last"


def test_nothing_is_made_of_a_start_that_fails() -> None:
    server = FakeCluster()
    sets = JobSets(server, manifests)

    def fail() -> None:
        with sets.gathering():
            sets.job_of("syncer")
            sets.put(node_job(manifests(), SYNCER))
            raise FleetError("a link cannot be made")

    with pytest.raises(FleetError):
        fail()
    assert server.calls == []


def counted(**restarts: list[int] | None) -> Mapping[str, Json]:
    specs: list[Json] = [
        {"name": name, "template": {"metadata": {"labels": {"chaoslab/node": f"{name}-0"}}}}
        for name in restarts
    ]
    counts: list[Json] = [
        {"name": name, **({} if count is None else {"jobRestarts": cast("Json", count)})}
        for name, count in restarts.items()
    ]
    return {
        "metadata": {"uid": "u"}, "spec": {"replicatedJobs": specs},
        "status": {"replicatedJobsStatus": counts},
    }  # fmt: skip


def test_each_restart_that_a_job_set_counts_is_reported_once() -> None:
    arrivals: Arrivals = Queue()
    watch = JobSetWatch(FakeCluster(), "chaoslab/run=r", arrivals)
    for found in (counted(a=None, b=[0]), counted(a=[1], b=[0]), counted(a=[1], b=[0])):
        watch._see(found)
    told = [one.data for arrival in taken(arrivals, 0.0) for one in arrival.observe()]
    assert [(one["node"], one["action"], one["restarts"]) for one in told] == [
        ("a-0", "job_set", 0), ("b-0", "job_set", 0), ("a-0", "job_restart", 1),
    ]  # fmt: skip
    assert restarts_of({"spec": {}, "metadata": {}}) == {}


# ---------------------------------------------------------------- where there are none


@pytest.mark.parametrize(("server", "facts", "why"), [
    ({}, {}, ""),
    ({"has_job_sets": False}, {}, "CRD"),
    ({"refuses": {"try jobsets/chaoslab-trial": Refused("Unsupported")}}, {}, "Unsupported"),
    ({"allows": "list"}, {}, "create jobsets, get jobsets"),
    ({}, {"learners": 1000}, "1000"),
    ({}, {"use": JobSetUse.NEVER}, "never"),
])  # fmt: skip
def test_plain_jobs_are_made_where_no_job_set_can_do_it(
    server: dict[str, Any], facts: dict[str, Any], why: str
) -> None:
    cluster, asked = FakeCluster(), JobSetChoice(**{"use": JobSetUse.AUTO, **facts})
    for name, value in server.items():
        setattr(cluster, name, value)
    said = asked.made(cluster)
    assert bool(said) is bool(why)
    assert why in said
    if why and asked.use is JobSetUse.AUTO:
        for strict in ({"use": JobSetUse.ALWAYS}, {"exclusive_topology": "rack"}):
            with pytest.raises(AbilityError):
                replace(asked, **strict).made(cluster)


@pytest.mark.parametrize(("settings", "key"), [
    ({"job_set": JobSetUse.ALWAYS}, "job_set"),
    ({"exclusive_topology": "rack"}, "exclusive_topology"),
    ({"exclusive_topology": "rack", "heal": Healer.CLUSTER, "job_set": JobSetUse.NEVER},
     "exclusive_topology"),
    ({"exclusive_topology": "a rack", "heal": Healer.CLUSTER}, "exclusive_topology"),
])  # fmt: skip
def test_settings_that_no_job_set_can_have_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        Kubernetes(**settings)
    assert refused.value.key == key


def test_a_preview_says_what_starts_nodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeCluster()
    monkeypatch.setattr(ClusterFleets, "_connect", lambda _: server)
    by_cluster = ClusterFleets(settings=Kubernetes(image="i", heal=Healer.CLUSTER))
    assert ClusterFleets(settings=Kubernetes(image="i")).explain() == ""
    assert "by a JobSet" in by_cluster.explain()
    server.has_job_sets = False
    assert "without a JobSet" in by_cluster.explain()
