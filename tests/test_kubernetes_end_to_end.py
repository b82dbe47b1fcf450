"""A run in a real cluster: it brings a node back, and its API server stalls for a while."""

import os
import signal
import subprocess
from itertools import pairwise

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import EngineReported, LearnerStep, NodeStarted
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from tests.cluster import CONTEXT, NAMESPACE, STATE, cluster
from tests.whole_runs import Ran, await_event, begin, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
AWAY_S = 20.0
PLAN = f"""
version: 1
name: by-cluster
seed: 3
fleet:
  {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never, disk: 10MB,
    heal: cluster, job_set: never}}
training: {{learners: 2, model: nano, stop: {{rounds: 160}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
twin: false
limits: {{min_alive: 1, max_affected: 100%, timeout: 12m}}
faults:
  - {{id: killed, fault: process.kill, target: {{learners: [learner-0]}}, at: {{round: 24}},
     for: 8s}}
expect:
  - {{check: continuity, max_gap: 5x baseline, floor: 8s}}
  - {{check: participation, min_share: 5%}}  # a pod gets what the other tests leave of the cores
  - {{check: rejoin, within: 120s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: cleanup}}
"""


def pid_of_api_server() -> int:
    """Of the test cluster, once that has answered; who started it otherwise has no such file."""
    file = STATE / "pid" / "kube-apiserver"
    if not file.is_file():
        pytest.skip(f"{file} is missing: the API server is no process that can be stopped here")
    return int(file.read_text().split()[0])


@pytest.fixture(scope="module")
def by_cluster(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The cluster brings a learner back; after that its API server stalls for a while."""
    folder = tmp_path_factory.mktemp("by-cluster")
    with pytest.MonkeyPatch.context() as patched, cluster(patched) as here:
        pid = pid_of_api_server()
        run = begin(PLAN, folder)
        await_event(folder, Kind.FAULT_HEALED, within_s=600)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(subprocess.TimeoutExpired):  # nothing can end without it
                run.wait(AWAY_S)
        finally:
            os.kill(pid, signal.SIGCONT)
        ran = ended(run, folder)
        # an end that is seen late is weak evidence
        assert ran.verdict["outcome"] in ("PASS", "UNKNOWN"), whole(ran.verdict)
        assert remains(here, run_name(ran.record)) == ()
    return ran


def test_where_the_cluster_heals_its_own_time_is_told(by_cluster: Ran) -> None:
    history = by_cluster.history
    again = [(one.payload.node, one.payload.incarnation, one.payload.started_by)
             for one in history.of(NodeStarted)
             if one.payload.started_by or one.payload.incarnation > 1]  # fmt: skip
    assert again == [("learner-0", 2, "cluster")]
    told = {one.payload.action for one in history.of(EngineReported)}
    assert told.isdisjoint({"job_restart", "job_set"}), "by its Job alone"
    rejoin = by_cluster.finding("rejoin")
    assert rejoin["outcome"] == "PASS"
    assert rejoin["numbers"]["cluster_start_s"]["learner-0 (injection-0)"] > 5.0


def test_training_goes_on_while_the_api_server_stands_still(by_cluster: Ran) -> None:
    contact, continuity = by_cluster.finding("contact"), by_cluster.finding("continuity")
    assert contact["observed"] >= AWAY_S
    assert CONTEXT in contact["reason"]
    assert continuity["outcome"] == "PASS"
    assert continuity["observed"] < AWAY_S / 2
    history = by_cluster.history
    for life in (("learner-0", 2), ("learner-1", 1)):
        told = [one.payload for one in history.of(LearnerStep)
                if (one.source, one.payload.incarnation) == life]  # fmt: skip
        assert len(told) > 1
        assert all(late.step == early.step + late.steps for early, late in pairwise(told))
