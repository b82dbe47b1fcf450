"""A whole run in a real cluster: three kinds of death, each with its witness; nothing is left."""

from pathlib import Path

import pytest

from chaoslab.core.events import Kind
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
    told = History.read(record).of(Kind.ENGINE_REPORTED)
    by_node = {
        name: {event.payload.action: event.payload for event in told
               if (event.payload.node, event.payload.incarnation) == (name, 1)}
        for name in ("learner-0", "learner-1", "learner-2")
    }  # fmt: skip
    assert (by_node["learner-0"]["die"].exit_code, by_node["learner-0"]["die"].signal) == (
        137, "SIGKILL",
    )  # fmt: skip
    assert "gone" in by_node["learner-1"]
    assert by_node["learner-2"]["evict"].reason == "EvictionByEvictionAPI"
