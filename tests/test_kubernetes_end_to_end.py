"""Whole runs in a real cluster: three deaths, each with its witness; a node that it brings back."""

from pathlib import Path

import pytest

from chaoslab.core.payloads import EngineReported, NodeStarted
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.record.journal import History
from tests.cluster import CONTEXT, LIMIT_S, NAMESPACE, cluster
from tests.whole_runs import start, verdict_of

pytestmark = [
    pytest.mark.slow, pytest.mark.kubernetes, pytest.mark.patient, pytest.mark.timeout(LIMIT_S),
]  # fmt: skip
PLAN = f"""
version: 1
name: pods
seed: 3
fleet:
  {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never, disk: 10MB}}
training: {{learners: 3, model: nano, stop: {{rounds: 140}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
control: none
limits: {{min_alive: 1, max_affected: 100%, timeout: 10m}}
faults:
  - {{id: killed, fault: process.kill, target: {{learners: [learner-0]}}, at: {{round: 24}},
     for: 8s}}
  - {{id: deleted, fault: pod.delete, target: {{learners: [learner-1]}}, for: 10s,
     at: {{after: killed, offset: 15s}}}}
  - {{id: evicted, fault: pod.evict, target: {{learners: [learner-2]}}, for: 10s,
     at: {{after: deleted, offset: 15s}}}}
expect:
  - {{check: rejoin, within: 120s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: agreement}}
  - {{check: versions}}
  - {{check: cleanup}}
"""


@pytest.mark.soak  # `tests/fleet/kubernetes/test_deaths.py` has each of them
def test_three_kinds_of_death_have_three_witnesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "pods.yaml"
    plan.write_text(PLAN)
    with cluster(monkeypatch) as here:
        verdict = verdict_of(start(str(plan), tmp_path / "runs"), limit_s=600)
        (record,) = (tmp_path / "runs" / "pods").glob("2*")
        assert verdict["outcome"] == "PASS", verdict
        assert remains(here, run_name(record)) == ()
    told = History.read(record).of(EngineReported)
    by_node = {
        name: {event.payload.action: event.payload for event in told
               if (event.payload.node, event.payload.incarnation) == (name, 1)}
        for name in ("learner-0", "learner-1", "learner-2")
    }  # fmt: skip
    killed = by_node["learner-0"]["die"]
    assert (killed.exit_code, killed.signal) == (137, "SIGKILL")
    assert "gone" in by_node["learner-1"]
    assert by_node["learner-2"]["evict"].reason == "EvictionByEvictionAPI"


HEALED_BY_CLUSTER = f"""
version: 1
name: by-cluster
seed: 3
fleet:
  {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never, disk: 10MB,
    heal: cluster}}
training: {{learners: 2, model: nano, stop: {{rounds: 60}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
control: none
limits: {{min_alive: 1, max_affected: 100%, timeout: 10m}}
faults:
  - {{id: killed, fault: process.kill, target: {{learners: [learner-0]}}, at: {{round: 24}},
     for: 8s}}
expect:
  - {{check: rejoin, within: 120s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: cleanup}}
"""


def test_where_the_cluster_heals_its_own_time_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "by-cluster.yaml"
    plan.write_text(HEALED_BY_CLUSTER)
    with cluster(monkeypatch) as here:
        verdict = verdict_of(start(str(plan), tmp_path / "runs"), limit_s=600)
        (record,) = (tmp_path / "runs" / "by-cluster").glob("2*")
        # an end that is seen late is weak evidence
        assert verdict["outcome"] in ("PASS", "UNKNOWN"), verdict
        assert remains(here, run_name(record)) == ()
    (again,) = [one.payload for one in History.read(record).of(NodeStarted)
                if one.payload.incarnation == 2]  # fmt: skip
    assert (again.node, again.started_by) == ("learner-0", "cluster")
    findings = verdict["findings"]
    assert isinstance(findings, list)
    (rejoin,) = [one for one in findings if one["check"] == "rejoin"]
    assert rejoin["outcome"] == "PASS"
    assert rejoin["numbers"]["cluster_start_s"]["learner-0 (injection-0)"] > 5.0
