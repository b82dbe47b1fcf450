"""A scheduled gate in a real cluster: green with the image of this source, red with a broken one.

docker/gate ─► kubectl apply -k ─► CronJob ─► Job ─► `chaoslab run --fleet kubernetes` in a pod
the broken release: learners of a later incarnation answer no pull of the syncer
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.fleet.kubernetes.rights import role
from tests.cluster import STATE, image, kubeconfig_or_skip

ROOT = Path(__file__).parents[1]
GATE = ROOT / "docker" / "gate"
START = ROOT / "docker" / "start_kubernetes.sh"
NAMESPACE = "chaoslab-gate-tests"
BROKEN = "chaoslab-node:broken-release"
MESSENGER = "chaoslab/diloco/learner/messenger.py"
SOUND_LINE = "    def _push(self, snapshot: Snapshot, pull: pb.Pull) -> None:\n"
PLAN = """
version: 1
name: gate
seed: 3
fleet: {kind: kubernetes, image_pull: Never, disk: 10MB}
training: {learners: 3, model: nano, stop: {rounds: 60}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 150%}
twin: false
settle: 60s
limits: {min_alive: 1, max_affected: 100%, timeout: 10m}
faults:
  - {id: killed, fault: process.kill, target: {learners: [learner-0]}, at: {round: 20}, for: 8s}
expect:
  - {check: rejoin, within: 60s, contributions: 2}
  - {check: cleanup}
"""
KUSTOMIZATION = """
namespace: %s
resources: [%s, namespace.yaml]
images:
  - {name: chaoslab, newName: %s, newTag: %s}
configMapGenerator:
  - {name: chaoslab-gate, behavior: merge, literals: [
       PLAN=/plans/gate.yaml, NODE_IMAGE=%s]}
  - {name: chaoslab-plans, files: [gate.yaml]}
generatorOptions: {disableNameSuffixHash: true}
"""


def test_the_role_of_the_gate_is_the_one_that_the_command_prints() -> None:
    assert (GATE / "role.yaml").read_text() == role("chaoslab")


@pytest.fixture
def harness_image() -> str:
    """The image of the harness, built and given to the cluster."""
    kubeconfig_or_skip()
    told = run(sys.executable, "-m", "chaoslab", "doctor", "images", "build", "--harness", "--json")
    (name,) = (name for name in json.loads(told)["images"] if name.startswith("chaoslab:"))
    run(str(START), "load", name)
    return str(name)


@pytest.fixture
def broken_image(tmp_path: Path) -> str:
    """The nodes' image with one line too many, given to the cluster."""
    kubeconfig_or_skip()
    sound = (ROOT / MESSENGER).read_text()
    broken = sound.replace(SOUND_LINE, f"{SOUND_LINE}        if self._incarnation > 1: return\n")
    assert broken != sound
    context = tmp_path / "broken"
    context.mkdir()
    (context / "messenger.py").write_text(broken)
    (context / "Dockerfile").write_text(
        f"FROM {image()}\nCOPY messenger.py /opt/source/{MESSENGER}\n"
    )
    run("docker", "build", "--quiet", "--tag", BROKEN, str(context))
    run(str(START), "load", BROKEN)
    return BROKEN


@pytest.fixture
def namespace() -> Iterator[None]:
    kubeconfig_or_skip()
    yield
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")


@pytest.mark.soak  # four minutes
@pytest.mark.deep
@pytest.mark.kubernetes
def test_a_broken_image_turns_the_scheduled_gate_red(
    tmp_path: Path, namespace: None, harness_image: str, broken_image: str
) -> None:
    apply(tmp_path / "first", harness_image, nodes=image())
    code, said = ended("sound")
    assert code == ("Complete", 0), said
    assert "records/gate/2" in said

    apply(tmp_path / "second", harness_image, nodes=broken_image)
    code, said = ended("broken")
    assert code == ("Failed", 1), said
    assert "rejoin" in said
    assert "FAIL" in said
    found = kubectl("get", "jobs,pods,services,secrets,pvc", "-l", "chaoslab/run", "-o", "name")
    assert found == "", "the runs removed what they made"


def apply(folder: Path, harness: str, *, nodes: str) -> None:
    """As a user does: a kustomization with the gate as its resource."""
    folder.mkdir()
    (folder / "gate.yaml").write_text(PLAN)
    (folder / "namespace.yaml").write_text(
        f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}\n"
    )
    name, _, tag = harness.partition(":")
    gate = os.path.relpath(GATE, folder)
    (folder / "kustomization.yaml").write_text(KUSTOMIZATION % (NAMESPACE, gate, name, tag, nodes))
    kubectl("apply", "-k", str(folder))


def ended(job: str) -> tuple[tuple[str, int], str]:
    """How a Job of the gate ended: its condition and the harness's exit code; what it printed."""
    kubectl("-n", NAMESPACE, "create", "job", "--from=cronjob/chaoslab-gate", job)
    path = "{.status.conditions[?(@.status=='True')].type}"
    watched = kubectl("wait", f"job/{job}", f"--for=jsonpath={path}", "--timeout=600s")
    assert job in watched
    condition = kubectl("get", f"job/{job}", "-o", f"jsonpath={path}").split()[-1]
    code = kubectl(
        "get", "pods", "-l", f"job-name={job}", "-o",
        "jsonpath={.items[0].status.containerStatuses[0].state.terminated.exitCode}",
    )  # fmt: skip
    return (condition, int(code)), kubectl("logs", f"job/{job}", "-c", "run")


def kubectl(*words: str) -> str:
    """What kubectl prints, in the namespace of the gate."""
    return run(str(START), "kubectl", "--namespace", NAMESPACE, *words)


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=900, cwd=ROOT,
        env={**os.environ, "CHAOSLAB_KUBERNETES_STATE": str(STATE)},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout
