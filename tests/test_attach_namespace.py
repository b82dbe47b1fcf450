"""docker/kubernetes-example, attached: found, broken by a plan, and left running."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaoslab.core.events import Kind
from chaoslab.record.history import History
from tests.cluster import CONTEXT, kubeconfig_or_skip
from tests.contracts.fleet_kit import wait_until
from tests.whole_runs import whole

if TYPE_CHECKING:
    from tests.namespace_training import Deployed

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]

ROOT = Path(__file__).parent.parent
NAMESPACE = "chaoslab-attach-test"
TARGET = f"namespace:{NAMESPACE}@{CONTEXT}"
PLAN = """
version: 1
name: attached
training: {learners: 3}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 300%}
limits: {min_alive: 1, max_affected: 50%, timeout: 8m}
settle: 4m
faults:
  - {id: die, fault: process.kill, target: {learners: [learner-1]}, at: {time: 5s}, for: 1s}
  - id: stand
    fault: process.pause
    target: {learners: [learner-0]}
    at: {after: die, offset: 15s}
    for: 6s
  - id: lose
    fault: pod.delete
    target: {learners: [learner-2]}
    at: {after: stand, offset: 15s}
    for: 1s  # the cluster has another pod that soon
expect:
  - {check: rejoin, within: 200s}
  - {check: agreement}
  - {check: cleanup}
"""


@pytest.fixture
def training() -> Iterator["Deployed"]:
    """All nodes of it are at work."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KUBECONFIG", str(kubeconfig_or_skip()))
        from tests.namespace_training import deployed  # noqa: PLC0415  # lightkube

        with deployed(NAMESPACE, learners=3) as made:
            made.await_merges(8)  # which may be those of one learner
            assert is_healthy(made)
            yield made


def chaoslab(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "chaoslab", "attach", TARGET, *words],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=560,
    )  # fmt: skip


def is_healthy(training: "Deployed") -> bool:
    """Whether all run, none is stopped, no lease is left, and more is merged."""
    wait_until(lambda: sorted(training.states()) == sorted(training.names))
    assert "T" not in training.states().values()
    assert training.leases() == []
    return training.await_merges(4)


def test_a_plan_breaks_the_pods_and_leaves_them_running(
    training: "Deployed", tmp_path: Path
) -> None:
    listed = json.loads(chaoslab("--json").stdout)
    assert sorted(one["node"] for one in listed) == sorted(training.names)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    run = chaoslab(str(plan), "--yes", "--json", "--out", str(tmp_path))
    verdict = json.loads(run.stdout)
    assert run.returncode == 0, f"{whole(verdict)}\n{run.stderr}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"] * 3
    history = History.read((tmp_path / "latest").resolve())
    exited = {str(e.data["node"]): e.data for e in history.events if e.kind is Kind.NODE_EXITED}
    assert exited["learner-1"]["signal"] == "SIGKILL"
    reports = [e.data for e in history.events if e.kind is Kind.ENGINE_REPORTED]
    told = {(one["node"], one["action"]) for one in reports}
    assert ("learner-2", "gone") in told
    assert is_healthy(training)
