"""A whole run in a real cluster whose API server stands still for 20 s.

Training does not notice, the harness waits, and the verdict says so.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import LearnerStep
from chaoslab.record.journal import History
from tests.cluster import CONTEXT, LIMIT_S, NAMESPACE, STATE, cluster
from tests.whole_runs import await_event, start, verdict_of

pytestmark = [
    pytest.mark.slow, pytest.mark.kubernetes, pytest.mark.patient, pytest.mark.timeout(LIMIT_S),
]  # fmt: skip
AWAY_S = 20.0
PLAN = f"""
version: 1
name: away
seed: 3
fleet:
  {{kind: kubernetes, context: {CONTEXT}, namespace: {NAMESPACE}, image_pull: Never, disk: 10MB}}
training: {{learners: 2, model: nano, stop: {{rounds: 120}}}}
baseline: {{warmup: 6 rounds, window: 12 rounds, max_variation: 300%}}
control: none
limits: {{min_alive: 1, max_affected: 50%, timeout: 12m}}
faults:
  - {{id: killed, fault: process.kill, target: {{learners: [learner-0]}}, at: {{round: 24}},
     for: 40s}}
expect:
  - {{check: continuity, max_gap: 5x baseline, floor: 5s}}
  - {{check: rejoin, within: 120s, contributions: 2}}
  - {{check: ledger, answer_within: 30s}}
  - {{check: agreement}}
  - {{check: cleanup}}
"""


@pytest.fixture
def api_server() -> Iterator[int]:
    """Process of the API server; it goes on afterwards."""
    pid = int((STATE / "pid" / "kube-apiserver").read_text().split()[0])
    yield pid
    os.kill(pid, signal.SIGCONT)


def test_training_goes_on_while_the_api_server_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_server: int
) -> None:
    plan = tmp_path / "away.yaml"
    plan.write_text(PLAN)
    with cluster(monkeypatch):
        run = start(str(plan), tmp_path / "runs")
        await_event(tmp_path / "runs", Kind.NODE_EXITED, within_s=600)
        os.kill(api_server, signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):  # nothing can end without it
            run.wait(AWAY_S)
        os.kill(api_server, signal.SIGCONT)
        verdict = verdict_of(run, limit_s=600)
    (record,) = (tmp_path / "runs" / "away").glob("2*")
    assert verdict["outcome"] == "PASS", verdict
    findings = verdict["findings"]
    assert isinstance(findings, list)
    (contact,) = [one for one in findings if one["check"] == "contact"]
    assert contact["observed"] >= AWAY_S
    assert f"the API server of {CONTEXT} was out of reach for" in contact["reason"]
    for name, last in (("learner-0", 2), ("learner-1", 1)):
        told = [one.payload for one in History.read(record).of(LearnerStep)
                if (one.source, one.payload.incarnation) == (name, last)]  # fmt: skip
        assert len(told) > 1
        assert all(late.step == early.step + late.steps for early, late in pairwise(told))
