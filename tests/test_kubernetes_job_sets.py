"""A whole run in a real cluster whose JobSet brings a learner back."""

from pathlib import Path

import pytest

from chaoslab.core.payloads import EngineReported, NodeExited, NodeStarted
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from tests.cluster import CONTEXT, NAMESPACE, cluster, need_job_sets
from tests.whole_runs import passed

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
PLAN = """
version: 1
name: job-sets
seed: 3
fleet:
  {kind: kubernetes, context: CONTEXT, namespace: NAMESPACE, image_pull: Never, disk: 10MB,
    heal: cluster, job_set: always}
training: {learners: 3, model: nano, stop: {rounds: 100}}
baseline: {warmup: 6 rounds, window: 12 rounds, max_variation: 300%}
control: none
limits: {min_alive: 2, max_affected: 50%, timeout: 10m}
faults:
  - {id: killed, fault: process.kill, target: {learners: [learner-0]}, at: {round: 24},
     for: 8s}
expect:
  - {check: rejoin, within: 120s, contributions: 2}
  - {check: ledger, answer_within: 30s}
  - {check: agreement}
  - {check: cleanup}
"""


def test_a_learner_that_was_killed_comes_back_by_the_cluster_and_the_others_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PLAN
    for word, value in {"CONTEXT": CONTEXT, "NAMESPACE": NAMESPACE}.items():
        text = text.replace(word, value)
    with cluster(monkeypatch) as here:
        need_job_sets(here)
        ran = passed(text, tmp_path)
        assert remains(here, run_name(ran.record), has_job_sets=True) == ()
    history = ran.history
    started = [(one.payload.node, one.payload.incarnation, one.payload.started_by)
               for one in history.of(NodeStarted) if one.payload.started_by]  # fmt: skip
    assert started == [("learner-0", 2, "cluster")]
    training = [one.payload.node for one in history.of(NodeExited) if one.payload.signal]
    assert training == ["learner-0"], "and nobody else was ended"
    rejoin = ran.finding("rejoin")
    told = [one.payload for one in history.of(EngineReported)]
    restarts = [(one.node, one.restarts) for one in told if one.action == "job_restart"]
    assert restarts == [("learner-0", 1)]
    assert rejoin["numbers"]["job_restarts"] == {"learner-0 (injection-0)": 1}
    assert rejoin["numbers"]["cluster_start_s"]["learner-0 (injection-0)"] < 10.0
