"""Pods of a training of the user's own, and `chaoslab attach` to them, for tests."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import CONTEXT, image, kubeconfig_or_skip
from tests.trainers.tolerant import SOURCE
from tests.whole_runs import ROOT, whole

if TYPE_CHECKING:
    from lightkube import Client

NAMESPACE = "chaoslab-script-test"
TARGET = f"namespace:{NAMESPACE}@{CONTEXT}"
FOLDER = "/saved/of-it"
PATIENCE_S = 180.0
PLAN = r"""
version: 1
name: attached
training:
  script: {progress: 'step (?P<step>\d+) loss (?P<loss>\S+)', saved: 'saved.* (?P<step>\d+)',
           resumed: 'resumed from step (?P<step>\d+)', max_pause: 2m,
           folder: /saved/of-it, checkpoints: 'rank*.json'}
baseline: {warmup: 10 rounds, window: 100 rounds, max_variation: 300%}
twin: false
settle: 4m
limits: {min_alive: 0, max_affected: 100%, timeout: 8m}
faults:
  - {id: dies, fault: FAULT, target: {workers: [worker-1]}, at: {round: 150}, for: 1s}
expect:
  - {check: cleanup}
  - {check: rejoin, within: 200s, contributions: 3}
  - {check: resume}
"""
RETURNS = PLAN[PLAN.index("  - {check: rejoin") :]
"""What is expected of a worker that was away."""


def template(*command: str, policy: str) -> dict[str, object]:
    """A pod with the trainer, whose folder is `saved`."""
    words = ["--folder", FOLDER, "--rank"]
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


def shared(rank: Mapping[str, object], policy: str = "Never") -> dict[str, Any]:
    """A pod whose shell waits for what trains, on one volume for all of them."""
    made: dict[str, Any] = template("sh", "-c", '"$@"; exit $?', "sh", policy=policy)
    claim = {"name": "saved", "persistentVolumeClaim": {"claimName": "saved"}}
    made["spec"]["volumes"] = [claim]
    made["spec"]["containers"][0]["env"] = [{"name": "INDEX", **rank}]
    return made


@contextmanager
def trainer_namespace(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Client]":
    """A client of a namespace of the test cluster, which goes when the block ends."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_or_skip()))
    from tests.namespace_training import namespace  # noqa: PLC0415  # lightkube

    with namespace(NAMESPACE) as made:
        yield made


def deploy(client: "Client", *manifests: dict[str, object], pods: int = 2) -> None:
    """Until all pods print steps."""
    from lightkube.codecs import from_dict  # noqa: PLC0415  # see above

    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Mi"}}}
    saved = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "saved"}}
    for manifest in ({**saved, "spec": claim}, *manifests):
        client.create(from_dict(manifest))
    await_steps(client, pods)


def await_steps(client: "Client", pods: int) -> None:
    from tests.namespace_training import logs  # noqa: PLC0415  # see above

    deadline = time.monotonic() + PATIENCE_S
    while sum(len(lines) > 20 for lines in logs(client, {"app": "trainer"})) < pods:
        assert time.monotonic() < deadline
        time.sleep(1)


def attach(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "chaoslab", "attach", TARGET, "--selector", "app=trainer"]
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, cwd=ROOT, check=False, timeout=560
    )


def names() -> list[str]:
    """Pods of the workers, in the order of their ranks."""
    listed = json.loads(attach("--json").stdout)
    assert [one["node"] for one in listed] == [f"worker-{rank}" for rank in range(len(listed))]
    return [str(one["where"]).rpartition("/")[2] for one in listed]


def broken_by(
    fault: str, folder: Path, *changes: tuple[str, str]
) -> "subprocess.CompletedProcess[str]":
    """A run of the plan with these changes to its text."""
    text = PLAN.replace("FAULT", fault)
    for written, wanted in changes:
        assert written in text
        text = text.replace(written, wanted)
    plan = folder / "plan.yaml"
    plan.write_text(text)
    return attach(str(plan), "--yes", "--json", "--out", str(folder))


def require_pass(run: "subprocess.CompletedProcess[str]") -> None:
    assert run.stdout, run.stderr
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"]


def require_return(run: "subprocess.CompletedProcess[str]") -> None:
    """It passes, or the last pod still wrote when the next one had begun."""
    verdict = json.loads(run.stdout)
    (resume,) = (one for one in verdict["findings"] if one["check"] == "resume")
    if resume["codes"] != ["lives_overlapped"]:
        require_pass(run)
        return
    assert verdict["outcome"] == "UNKNOWN", whole(verdict)
    assert [one["status"] for one in verdict["injections"]] == ["proved"]
