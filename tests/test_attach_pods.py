"""A training of the user's own in pods: broken as its owner allows, and left as it was."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from chaoslab.core.payloads import NodeExited, NodeStarted, StorageDamaged
from chaoslab.record.history import History
from tests.cluster import CONTEXT
from tests.trainer_pods import (
    FOLDER,
    NAMESPACE,
    RETURNS,
    attach,
    await_steps,
    broken_by,
    deploy,
    names,
    require_pass,
    require_return,
    template,
    trainer_namespace,
)

if TYPE_CHECKING:
    from lightkube import Client

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]


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


def indexed_job(
    volume: Mapping[str, object] = MappingProxyType({}), first: str = ""
) -> dict[str, object]:
    """Pods whose shell waits for what trains, after a command; the kubelet starts a container
    again.
    """
    pod = template("sh", "-c", f'{first} "$@"; exit $?', "sh", policy="OnFailure")
    pod["spec"]["volumes"] = [{"name": "saved", "emptyDir": dict(volume)}]  # type: ignore[index]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "trainer"},
        "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed",
                 "backoffLimit": 20, "template": pod},
    }  # fmt: skip


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Client]":
    with trainer_namespace(monkeypatch) as made:
        yield made


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


def saved() -> list[str]:
    """All that is in the folders of the checkpoints."""
    from chaoslab.fleet.kubernetes.cluster import Cluster  # noqa: PLC0415  # lightkube

    with closing(Cluster.connect(CONTEXT, NAMESPACE)) as cluster:
        listed = [cluster.exec(pod, ["ls", "-A", FOLDER], container="trainer") for pod in names()]
    return [name for one in listed for name in one.split()]


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ("storage.damage_checkpoint, how: lose", [("for: 1s", "for: 20s")]),
        ("storage.disk_full", [("for: 1s", "for: 6s"), (RETURNS, "")]),
    ],
)
def test_a_fault_of_the_storage_acts_in_a_pod_and_leaves_nothing_behind(
    client: "Client", tmp_path: Path, fault: str, changes: list[tuple[str, str]]
) -> None:
    deploy(client, indexed_job({"medium": "Memory", "sizeLimit": "4Mi"}))
    require_pass(broken_by(fault, tmp_path, *changes))
    assert all(name.startswith("rank") for name in saved())


def test_a_disk_that_is_a_part_of_the_machines_is_not_filled(
    client: "Client", tmp_path: Path
) -> None:
    deploy(client, indexed_job())
    refused = broken_by("storage.disk_full", tmp_path, (RETURNS, ""))
    assert refused.returncode == 2
    assert "a part of a volume" in refused.stderr


def test_a_checkpoint_that_no_worker_can_read_is_put_back_into_a_pod_that_fails_again_and_again(
    client: "Client", tmp_path: Path
) -> None:
    deploy(client, indexed_job(first="sleep 5;"))  # as imports take
    soon = ("settle: 4m", "settle: 10s"), ("for: 1s", "for: 10s")
    run = broken_by("storage.damage_checkpoint, how: truncate", tmp_path, *soon)
    assert json.loads(run.stdout)["outcome"] == "FAIL"
    (damaged,) = History.read((tmp_path / "latest").resolve()).of(StorageDamaged)
    await_steps(client, 2)
    assert damaged.payload.file in saved()
    assert all(name.startswith("rank") for name in saved())


def test_a_pod_that_begins_before_the_last_has_ended_is_no_failure_of_its_trainer(
    client: "Client", tmp_path: Path
) -> None:
    deploy(client, stateful_set())
    require_return(broken_by("pod.delete", tmp_path))
    history = History.read((tmp_path / "latest").resolve())
    (exited,) = history.of(NodeExited)
    begun = [e.payload for e in history.of(NodeStarted) if e.payload.node == "worker-1"]
    assert exited.payload.container_ended_s is not None
    assert [one.container_began_s for one in begun] == sorted(
        one.container_began_s or 0.0 for one in begun
    )
    assert exited.payload.container_ended_s > (begun[0].container_began_s or 0.0) > 0
