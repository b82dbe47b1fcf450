"""Manifests of a run: owned by its owner Job, confined, and with the user's own pod settings."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from chaoslab.core.errors import PlanError
from chaoslab.fleet.base import Ability, Hosts, NodeSpec, Role
from chaoslab.fleet.kubernetes.manifests import Manifests, PodSettings
from chaoslab.fleet.kubernetes.rights import RIGHTS, machines_role, role, rules_of
from chaoslab.fleet.kubernetes.scripts import ENTRY, HOST, MEETING
from chaoslab.fleet.kubernetes.settings import ClusterFleets, Kubernetes, looks_like_production
from chaoslab.fleet.stressors import Mechanism

SPEC = NodeSpec(
    name="learner-0", role=Role.LEARNER, command=("python3", "-m", "x"), keeps="checkpoints",
    secrets={"KEY": "secret-word"}, private_files={"key.pem": b"k"},
)  # fmt: skip
OF_TWO = replace(SPEC, hosts=Hosts(count=2, flags=("{host}", "{meeting}"), secret="SECRET"))


@pytest.fixture
def manifests() -> Manifests:
    settings = PodSettings(image="chaoslab-node:1")
    return Manifests(run="3fa9c2e1b0", directory="/runs/x", settings=settings, owner="uid-1")


def job(manifests: Manifests, spec: NodeSpec = SPEC, *command: str) -> Any:
    return manifests.node(spec, 1, command or spec.command, {})


def test_the_owner_job_owns_everything(manifests: Manifests) -> None:
    made: list[Any] = [
        job(manifests), manifests.service("syncer"), manifests.claim("shared"),
        manifests.node_secret(SPEC), manifests.beside("learner-0", ("true",), 1),
        manifests.meeting("learner-0"), manifests.host_names("learner-0"),
    ]  # fmt: skip
    for one in made:
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == (
            "Job", "chaoslab-3fa9c2e1b0", "uid-1",
        )  # fmt: skip
        assert one["metadata"]["labels"]["chaoslab/run"] == "3fa9c2e1b0"
        assert one["metadata"]["name"].startswith("chaoslab-3fa9c2e1b0-")


def test_where_the_cluster_heals_one_job_replaces_pods_that_failed(manifests: Manifests) -> None:
    own = replace(manifests, settings=replace(manifests.settings, replaces=True))
    for one in (Role.LEARNER, Role.SYNCER):
        spec = job(own, replace(SPEC, role=one, keeps=""))["spec"]
        assert spec["backoffLimit"] > 1000
        assert spec["podReplacementPolicy"] == "Failed"
        pod = spec["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        assert {"name": "CHAOSLAB_INCARNATION", "value": "1"} in pod["containers"][0]["env"]
        (state,) = [volume for volume in pod["volumes"] if volume["name"] == "state"]
        assert state["persistentVolumeClaim"], "where its pods are counted"
    evaluator = job(own, replace(SPEC, role=Role.EVALUATOR))
    assert evaluator["spec"]["backoffLimit"] == 0


def test_pods_of_one_job_count_themselves(tmp_path: Path) -> None:
    count = ENTRY[2].partition("exit 125\nif")[2].replace("/var/lib/chaoslab/node", ".")
    count = f"if{count}"
    command = ("/bin/sh", "-c", count, "node", "echo", "--incarnation", "@incarnation@", "a b")
    environment = {"CHAOSLAB_INCARNATION": "4", "CHAOSLAB_HEARS": "", "PATH": os.environ["PATH"]}
    said = [
        subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["--incarnation 4 a b\n", "--incarnation 5 a b\n"]


# ---------------------------------------------------------------- learners of several hosts


def test_where_the_cluster_heals_all_hosts_are_in_one_pod(manifests: Manifests) -> None:
    own = replace(manifests, settings=replace(manifests.settings, replaces=True))
    assert own.settings.pods_of(OF_TWO) == 1
    assert "completionMode" not in str((job(own, OF_TWO), job(manifests)))


@pytest.mark.parametrize(("address", "index", "said"), [
    ("10.0.0.5", "0", "--host-index 0 --meeting 10.0.0.5:4650"),
    ("10.0.0.6", "1", "--host-index 1 --meeting 10.9.0.1:4650"),
    ("fd00::5", "0", "--host-index 0 --meeting [fd00::5]:4650"),
])  # fmt: skip
def test_host_0_listens_at_its_own_address_and_the_others_ask_for_the_service(
    address: str, index: str, said: str
) -> None:
    begin = ENTRY[2].index('if [ -n "$CHAOSLAB_MEETING')
    words = ("echo", "--host-index", HOST, "--meeting", MEETING)
    command = ("/bin/sh", "-c", ENTRY[2][begin:], "node", *words)
    environment = {
        "PATH": os.environ["PATH"], "CHAOSLAB_MEETING": "10.9.0.1:4650",
        "CHAOSLAB_ADDRESS": address, "JOB_COMPLETION_INDEX": index,
    }  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{said}\n"


def test_the_owner_job_has_no_pods_and_takes_all_with_it_at_its_deadline(
    manifests: Manifests,
) -> None:
    found: Any = manifests.owner_job(60.2)
    assert found["spec"]["parallelism"] == 0
    assert found["spec"]["activeDeadlineSeconds"] == 61
    assert found["spec"]["ttlSecondsAfterFinished"] == 0


def test_no_secret_is_in_a_pod_and_the_cluster_expands_nothing_in_its_command(
    manifests: Manifests,
) -> None:
    pod = job(manifests, SPEC, "$(HOME)", "a$$b")
    assert "secret-word" not in str(pod)
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"]["secretKeyRef"]["key"] == "environment.KEY"
    assert container["command"][-2:] == ["$$(HOME)", "a$$$$b"]


def test_pods_are_confined(manifests: Manifests) -> None:
    for made in (job(manifests), manifests.owner_job(60.0)):
        whole: Any = made
        spec = whole["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True, "runAsUser": 10001,
        }  # fmt: skip


def test_the_users_pod_settings_stay_beside_ours(manifests: Manifests) -> None:
    template = {
        "nodeSelector": {"pool": "tpu"}, "securityContext": {"runAsGroup": 5},
        "volumes": [{"name": "data", "emptyDir": {}}], "terminationGracePeriodSeconds": 30,
    }  # fmt: skip
    own = replace(manifests, settings=replace(manifests.settings, learners=template))
    spec = job(own)["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "tpu"}
    assert spec["securityContext"] == {
        "fsGroup": 10001, "runAsGroup": 5, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert [one["name"] for one in spec["volumes"]][:2] == ["data", "control"]
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["shareProcessNamespace"] is True


def test_learners_get_chips_and_a_queue_and_the_others_do_not(manifests: Manifests) -> None:
    settings = replace(
        manifests.settings, memory_bytes=1 << 30, cpus=1.5,
        labels={"kueue.x-k8s.io/queue-name": "tpus"},
        container={"resources": {"limits": {"google.com/tpu": 4}},
                   "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        others={"nodeSelector": {"pool": "cpu"}},
    )  # fmt: skip
    own = replace(manifests, settings=settings)
    learner, syncer = job(own), job(own, replace(SPEC, role=Role.SYNCER, keeps=""))
    (container,) = learner["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"google.com/tpu": 4, "memory": "1073741824", "cpu": "1500m"}
    }
    assert container["volumeMounts"][0] == {"name": "data", "mountPath": "/data"}
    for of in (learner, learner["spec"]["template"]):
        assert of["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tpus"
    spec = syncer["spec"]["template"]["spec"]
    assert "google.com/tpu" not in str(syncer)
    assert "kueue" not in str(syncer)
    assert spec["nodeSelector"] == {"pool": "cpu"}
    assert {"name": "state", "emptyDir": {}} in spec["volumes"], "it keeps nothing"


# ---------------------------------------------------------------- settings and rights


@pytest.mark.parametrize(("context", "is_so"), [
    ("gke_acme_us-east5_prod", True), ("production", True), ("prd-eu", True), ("live", True),
    ("product-team-dev", False), ("kind-chaos", False), ("reproduction", False), ("olive", False),
])  # fmt: skip
def test_a_context_that_looks_like_production_is_known(context: str, is_so: bool) -> None:
    assert looks_like_production(context) is is_so


@pytest.mark.parametrize(("settings", "limits"), [
    ({}, ""), ({"memory_bytes": 1 << 30}, "memory"), ({"cpus": 2.0}, "cpu"),
    ({"container": {"resources": {"limits": {"memory": "1Gi"}}}}, "memory"),
    ({"container": {"resources": {"limits": {"google.com/tpu": 4}}}}, ""),
    ({"container": {"resources": {"limits": {"cpu": "2"}}}}, "cpu"),
    ({"container": {"resources": {"requests": {"cpu": "2"}}}}, ""),
])  # fmt: skip
def test_memory_runs_out_and_cpu_time_is_cut_only_where_there_is_a_limit(
    settings: dict[str, Any], limits: str
) -> None:
    asked = Kubernetes(**settings)
    assert (asked.limits_memory, asked.limits_cpu) == (limits == "memory", limits == "cpu")
    assert (Ability.QUOTA in ClusterFleets(settings=asked).remedies) is not asked.limits_cpu


def test_learners_rest_unless_the_plan_names_their_limit() -> None:
    rest, asked_rest, limit = map(
        Kubernetes().slowing, (Mechanism.AUTO, Mechanism.HOOK, Mechanism.CGROUP)
    )
    assert rest == asked_rest != limit


@pytest.mark.parametrize("needs", [frozenset[Ability](), frozenset({Ability.QUOTA})])
def test_cpu_time_is_measured_only_for_a_plan_that_cuts_it(needs: frozenset[Ability]) -> None:
    fleets = ClusterFleets(settings=Kubernetes(image="i", cpus=1.0), needs=needs)
    assert fleets.pods().measures_cpu is bool(needs)


@pytest.mark.parametrize(("settings", "key"), [
    ({"pod": {"containers": []}}, "pod"), ({"image_pull": "Sometimes"}, "image_pull"),
    ({"container": {"command": []}}, "container"),
    ({"lease_s": 5.0}, "lease"), ({"start_within_s": 0.0}, "start_within"), ({"cpus": 0.0}, "cpus"),
    ({"disk_bytes": 0}, "disk"), ({"memory_bytes": -1}, "memory"),
])  # fmt: skip
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        Kubernetes(**settings)
    assert refused.value.key == key


def test_roles_have_exactly_the_rules_and_may_be_in_one_namespace() -> None:
    found = {kind: YAML(typ="safe").load(role("chaos", kind)) for kind in RIGHTS}
    for kind, manifest in found.items():
        assert (manifest["kind"], manifest["metadata"]["namespace"]) == ("Role", "chaos")
        assert manifest["rules"] == [
            {"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)}
            for rule in rules_of(kind)
        ]
        assert "*" not in str(manifest)
    assert len({one["metadata"]["name"] for one in found.values()}) == len(found)
    of_machines = YAML(typ="safe").load(machines_role())
    assert of_machines["kind"] == "ClusterRole"
    assert of_machines["rules"][0] == {
        "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"],
    }  # fmt: skip
    assert "namespace" not in of_machines["metadata"]
