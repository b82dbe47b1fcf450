"""Fault on a machine of a real cluster: it is drained, in a whole run.

chaoslab-test     syncer, one learner              where those of the other go when it is drained
chaoslab-test-2   two learners                     the second node of `start_kubernetes.sh node`
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.payloads import EvidenceMeasured
from chaoslab.fleet.kubernetes.cordon import MACHINES, is_cordoned_by
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.log import open_undos
from tests.cluster import CONTEXT, NAMESPACE, Cluster, cluster, image
from tests.contracts.fleet_kit import wait_until
from tests.fleet.kubernetes.test_cleanup import killed_when
from tests.whole_runs import ROOT, passed

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
FIRST, SECOND = "chaoslab-test", "chaoslab-test-2"
PLAN = f"""
version: 1
name: machines
seed: 3
fleet:
  kind: kubernetes
  context: {CONTEXT}
  namespace: {NAMESPACE}
  image_pull: Never
  disk: 10MB
  job_labels: {{placed: apart}}
  pod:  # two learners on the second node and one on the first, while both take any
    tolerations: [{{key: chaoslab-test/second, operator: Exists}}]
    affinity:
      nodeAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            preference: {{matchExpressions: [{{key: chaoslab-test/second, operator: Exists}}]}}
    topologySpreadConstraints:
      - maxSkew: 2
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        nodeTaintsPolicy: Honor
        labelSelector: {{matchLabels: {{placed: apart}}}}
training: {{learners: 3, model: nano, stop: {{rounds: 60}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
twin: false
limits: {{min_alive: 1, max_affected: 70%, timeout: 10m}}
faults:
  - {{id: drained, fault: node.drain, target: {{learners: [learner-0]}}, at: {{time: 5s}},
     grace: 6s, for: 12s}}
expect:
  - {{check: participation, min_share: 5%}}  # a pod gets what the other tests leave of the cores
  - {{check: rejoin, within: 120s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: agreement}}
  - {{check: versions}}
  - {{check: cleanup}}
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The test cluster, with its second node."""
    with cluster(monkeypatch) as found:
        script = ROOT / "docker" / "start_kubernetes.sh"
        subprocess.run([script, "node", image()], check=True, capture_output=True, text=True)
        yield found


def test_training_moves_off_a_drained_machine(tmp_path: Path, here: Cluster) -> None:
    ran = passed(PLAN, tmp_path)
    run, history = run_name(ran.record), ran.history
    assert remains(here, run) == ()
    assert not is_cordoned_by(here, SECOND, run)

    drained = {one.payload.target: one.payload.measured for one in history.of(EvidenceMeasured)}
    assert len(drained) == 2
    assert {one["machine"] for one in drained.values()} == {SECOND}
    moved = {one["next_machine"] for one in drained.values()}
    assert moved - {None} == {FIRST}  # None: its next pod had no machine yet when that was read


def test_the_janitor_of_a_killed_harness_lets_the_machine_take_pods_again(
    tmp_path: Path, here: Cluster
) -> None:
    killed_when("drained", tmp_path, "--second")
    wait_until(lambda: not open_undos(tmp_path))
    assert remains(here, run_name(tmp_path)) == ()
    assert not is_cordoned_by(here, SECOND, run_name(tmp_path))
    assert "unschedulable" not in str(here.get(MACHINES, SECOND)["spec"])
