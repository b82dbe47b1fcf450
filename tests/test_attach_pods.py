"""A training of the user's own in pods: broken as its owner allows, and left as it was."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaoslab.selftest.mutants import trainer
from tests.cluster import CONTEXT, image, kubeconfig_or_skip
from tests.whole_runs import ROOT, whole

if TYPE_CHECKING:
    from lightkube import Client

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]

NAMESPACE = "chaoslab-script-test"
TARGET = f"namespace:{NAMESPACE}@{CONTEXT}"
SOURCE = Path(trainer.__file__).read_text(encoding="utf-8")
PATIENCE_S = 180.0
PLAN = r"""
version: 1
name: attached
training:
  script: {progress: 'step (?P<step>\d+) loss (?P<loss>\S+)', saved: 'saved.* (?P<step>\d+)',
           resumed: 'resumed from step (?P<step>\d+)', max_pause: 2m}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 300%}
twin: false
settle: 4m
limits: {min_alive: 0, max_affected: 100%, timeout: 8m}
faults:
  - {id: dies, fault: FAULT, target: {workers: [worker-1]}, at: {round: 20}, for: 1s}
expect:
  - {check: rejoin, within: 200s, contributions: 3}
  - {check: resume}
  - {check: cleanup}
"""


def template(*command: str, policy: str) -> dict[str, object]:
    """A pod with the trainer, whose folder is `saved`."""
    words = ["--folder", "/saved/of-it", "--rank"]
    return {
        "metadata": {"labels": {"app": "trainer"}},
        "spec": {
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "trainer", "image": image(), "imagePullPolicy": "Never",
                "command": [*command, "python3", "-u", "-c", SOURCE, *words, "$(INDEX)"],
                "env": [{"name": "INDEX", "value": "0"}],
                "volumeMounts": [{"name": "saved", "mountPath": "/saved"}],
                "securityContext": {"runAsUser": 0},
            }],
        },
    }  # fmt: skip


def stateful_set() -> dict[str, object]:
    """Pods whose first process trains, with volumes of their own."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "trainer"},
        "spec": {
            "serviceName": "trainer", "replicas": 2, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "trainer"}},
            "template": template(policy="Always"),
            "volumeClaimTemplates": [{"metadata": {"name": "saved"}, "spec": claim}],
        },
    }  # fmt: skip


def indexed_job() -> dict[str, object]:
    """Pods whose shell waits for what trains; the kubelet starts a container again."""
    pod = template("sh", "-c", '"$@"; exit $?', "sh", policy="OnFailure")
    pod["spec"]["volumes"] = [{"name": "saved", "emptyDir": {}}]  # type: ignore[index]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "trainer"},
        "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed",
                 "backoffLimit": 20, "template": pod},
    }  # fmt: skip


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Client]":
    """Of a namespace of the test cluster, which goes when the test ends."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_or_skip()))
    from tests.namespace_training import namespace  # noqa: PLC0415  # lightkube

    with namespace(NAMESPACE) as made:
        yield made


def deploy(client: "Client", manifest: dict[str, object]) -> None:
    """Until both pods print steps."""
    from lightkube.codecs import from_dict  # noqa: PLC0415  # see above

    from tests.namespace_training import logs  # noqa: PLC0415  # see above

    client.create(from_dict(manifest))
    deadline = time.monotonic() + PATIENCE_S
    while sum(len(lines) > 20 for lines in logs(client, {"app": "trainer"})) < 2:
        assert time.monotonic() < deadline
        time.sleep(1)


def attach(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "chaoslab", "attach", TARGET, "--selector", "app=trainer"]
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, cwd=ROOT, check=False, timeout=560
    )


def broken_by(fault: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    plan = folder / "plan.yaml"
    plan.write_text(PLAN.replace("FAULT", fault))
    return attach(str(plan), "--yes", "--json", "--out", str(folder))


def require_pass(run: "subprocess.CompletedProcess[str]") -> None:
    assert run.stdout, run.stderr
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"]


def test_a_worker_of_an_indexed_job_is_killed_in_its_pod(client: "Client", tmp_path: Path) -> None:
    deploy(client, indexed_job())
    require_pass(broken_by("process.kill", tmp_path))
    gate = tmp_path / "gate.yaml"
    assert attach("--write", str(gate)).returncode == 0
    assert "process.kill" in gate.read_text()


def test_a_first_process_is_not_signalled_and_its_pod_deleted(
    client: "Client", tmp_path: Path
) -> None:
    deploy(client, stateful_set())
    refused = broken_by("process.kill", tmp_path)
    assert refused.returncode == 2
    assert "pod.delete" in refused.stderr
    require_pass(broken_by("pod.delete, how: evict", tmp_path))
