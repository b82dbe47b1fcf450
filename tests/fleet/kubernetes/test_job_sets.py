"""JobSets: of which nodes, in which order, and where there are none; by their words alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from queue import Queue
from typing import Any, cast

import pytest

pytest.importorskip("lightkube")

from chaoslab.core.errors import AbilityError, FleetError, PlanError
from chaoslab.core.events import Json
from chaoslab.fleet.base import Ability, NodeSpec, Role
from chaoslab.fleet.kubernetes.cluster import Cluster
from chaoslab.fleet.kubernetes.job_set_choice import JobSetChoice, JobSetUse
from chaoslab.fleet.kubernetes.job_set_watch import JobSetWatch, restarts_of
from chaoslab.fleet.kubernetes.job_sets import EXCLUSIVE, JobSets, NodeJob, job_set
from chaoslab.fleet.kubernetes.manifests import Manifests, PodSettings
from chaoslab.fleet.kubernetes.refusals import Refused
from chaoslab.fleet.kubernetes.resources import Resource
from chaoslab.fleet.kubernetes.settings import ClusterFleets, Healer, Kubernetes
from chaoslab.fleet.nodes.arrivals import Arrivals, taken

SYNCER, *LEARNERS = [
    NodeSpec(name=name, role=role, command=("true",), keeps="state")
    for name, role in [
        ("syncer", Role.SYNCER), ("learner-0", Role.LEARNER), ("learner-1", Role.LEARNER),
    ]
]  # fmt: skip


def manifests(**settings: Any) -> Manifests:
    asked = PodSettings(image="node:1", replaces=True, in_job_sets=True, **settings)
    return Manifests(run="3fa9c2e1b0", directory="/runs/x", settings=asked, owner="uid-1")


def made(of: Manifests, *specs: NodeSpec) -> Any:
    nodes = [NodeJob(spec, of.node(spec, 1, spec.command, {})) for spec in specs]
    return job_set(of, of.name(), nodes)


# ---------------------------------------------------------------- manifest


def test_a_job_that_fails_is_started_again_alone() -> None:
    found = made(manifests(), SYNCER, *LEARNERS)
    assert found["metadata"]["name"] == "chaoslab-3fa9c2e1b0"
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


def test_learners_wait_for_a_syncer_that_listens() -> None:
    first, *others = made(manifests(), *LEARNERS, SYNCER)["spec"]["replicatedJobs"]
    assert first["name"] == "syncer"
    assert "dependsOn" not in first
    assert [one["dependsOn"] for one in others] == 2 * [[{"name": "syncer", "status": "Ready"}]]
    (container,) = first["template"]["spec"]["template"]["spec"]["containers"]
    assert "/proc/net/tcp" in str(container["startupProbe"]["exec"])
    (container,) = others[0]["template"]["spec"]["template"]["spec"]["containers"]
    assert "startupProbe" not in container
    (later,) = made(manifests(), LEARNERS[0])["spec"]["replicatedJobs"]
    assert "dependsOn" not in later


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


class Server:
    """A server that takes JobSets, unless it is told not to."""

    def __init__(self, *, serves: bool = True, refuses: str = "", allows: bool = True) -> None:
        self._serves, self._refuses, self._allows = serves, refuses, allows
        self.created: list[Any] = []
        self.deleted: list[tuple[str, str, bool]] = []
        self.is_closing = False

    def serves(self, resource: Resource) -> bool:
        assert resource.plural == "jobsets"
        return self._serves

    def may(self, verb: str, resource: str, group: str, below: str, *, everywhere: bool) -> bool:
        assert (resource, group) == ("jobsets", "jobset.x-k8s.io")
        return self._allows or verb == "list"

    def create(self, manifest: Mapping[str, Json], *, is_trial: bool = False) -> Any:
        if self._refuses:
            raise Refused(self._refuses)
        if not is_trial:
            self.created.append(manifest)
        return manifest

    def delete(self, resource: Resource, name: str, *, is_last: bool = False) -> bool:
        self.deleted.append((resource.plural, name, is_last))
        return True

    def close(self) -> None:
        """Nothing is open."""


def entries(created: Any) -> list[str]:
    return [one["name"] for one in created["spec"]["replicatedJobs"]]


def test_nodes_of_the_start_are_one_job_set_and_a_later_one_has_its_own() -> None:
    of, server = manifests(), Server()
    sets = JobSets(cast("Cluster", server), lambda: of)

    def put(spec: NodeSpec) -> str:
        job = sets.job_of(spec.name)
        sets.put(NodeJob(spec, of.node(spec, 1, spec.command, {})))
        return job

    with sets.gathering():
        assert put(SYNCER) == "chaoslab-3fa9c2e1b0-syncer-0"
        assert put(LEARNERS[0]) == "chaoslab-3fa9c2e1b0-learner-0-0"
        assert server.created == []
    assert put(LEARNERS[1]) == "chaoslab-3fa9c2e1b0-learner-1-learner-1-0"
    assert [entries(one) for one in server.created] == [["syncer", "learner-0"], ["learner-1"]]
    assert sets.job_of("learner-0") == "chaoslab-3fa9c2e1b0-learner-0-0"
    assert sets.has("chaoslab-3fa9c2e1b0-learner-1-learner-1-0")
    assert not sets.has("chaoslab-3fa9c2e1b0-evaluator-1")
    sets.delete_job("chaoslab-3fa9c2e1b0-learner-0-0")
    assert server.deleted == [("jobs", "chaoslab-3fa9c2e1b0-learner-0-0", True)]


def test_nothing_is_made_of_a_start_that_fails() -> None:
    server = Server()
    sets = JobSets(cast("Cluster", server), manifests)

    def fail() -> None:
        with sets.gathering():
            sets.job_of("syncer")
            sets.put(NodeJob(SYNCER, manifests().node(SYNCER, 1, SYNCER.command, {})))
            raise FleetError("a link cannot be made")

    with pytest.raises(FleetError, match="link"):
        fail()
    assert server.created == []


# ---------------------------------------------------------------- their counts


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


def test_its_restarts_are_told_by_node() -> None:
    assert restarts_of(counted(a=[2], b=None)) == {"a-0": 2, "b-0": 0}
    assert restarts_of({"spec": {}, "metadata": {}}) == {}


def test_each_restart_that_a_job_set_counts_is_reported_once() -> None:
    arrivals: Arrivals = Queue()
    watch = JobSetWatch(cast("Cluster", Server()), "chaoslab/run=r", arrivals)
    for found in (counted(a=None, b=[0]), counted(a=[1], b=[0]), counted(a=[1], b=[0])):
        watch._see(found)
    told = [one.data for arrival in taken(arrivals, 0.0) for one in arrival.observe()]
    assert [(one["node"], one["action"], one["restarts"]) for one in told] == [
        ("a-0", "job_set", 0), ("b-0", "job_set", 0), ("a-0", "job_restart", 1),
    ]  # fmt: skip


# ---------------------------------------------------------------- where there are none


@pytest.mark.parametrize(("server", "facts", "why"), [
    (Server(), {}, ""),
    (Server(serves=False), {}, "no CRD"),
    (Server(refuses="Unsupported value"), {}, "starts a Job again alone.*Unsupported.*RestartJob"),
    (Server(allows=False), {}, "you may not create jobsets, get jobsets"),
    (Server(), {"needs": frozenset({Ability.IMAGE})}, r"pod\.image"),
    (Server(), {"learners": 1000}, "too many"),
    (Server(), {"use": JobSetUse.NEVER}, "never"),
])  # fmt: skip
def test_plain_jobs_are_made_where_no_job_set_can_do_it(
    server: Server, facts: dict[str, Any], why: str
) -> None:
    asked = JobSetChoice(**{"use": JobSetUse.AUTO, **facts})
    said = asked.made(cast("Cluster", server))
    assert bool(said) is bool(why)
    assert re.search(why, said)
    if why and asked.use is JobSetUse.AUTO:
        with pytest.raises(AbilityError, match="JobSet") as refused:
            replace(asked, use=JobSetUse.ALWAYS).made(cast("Cluster", server))
        assert refused.value.key == "fleet.job_set"
        with pytest.raises(AbilityError, match="JobSet"):
            replace(asked, exclusive_topology="rack").made(cast("Cluster", server))


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


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def explain(server: Server, **settings: Any) -> str:
        fleets = ClusterFleets(settings=Kubernetes(image="i", **settings))
        monkeypatch.setattr(ClusterFleets, "_connect", lambda _: server)
        return fleets.explain()

    return explain


def test_a_preview_says_what_starts_nodes_again(explained: Callable[..., str]) -> None:
    by_cluster = {"heal": Healer.CLUSTER}
    assert explained(Server()) == ""
    assert "by a JobSet" in explained(Server(), **by_cluster)
    assert "without a JobSet: the cluster has none" in explained(Server(serves=False), **by_cluster)
