"""Whole runs in a real cluster: a learner of two hosts, each a pod, loses one and comes back."""

from pathlib import Path

import pytest

from chaoslab.core.payloads import HostLost, HostStarted, NodeExited
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from tests.cluster import CONTEXT, NAMESPACE, cluster
from tests.whole_runs import passed

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]
SLICE = "learner-1"
PLAN = """
version: 1
name: pod-hosts
seed: 5
fleet: {kind: kubernetes, context: CONTEXT, namespace: NAMESPACE, image_pull: Never, disk: 10MB}
training: {learners: [{count: 1}, {count: 1, hosts: 2}], model: nano, stop: {rounds: 50}}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 300%}
twin: false
settle: 120s
limits: {min_alive: 1, max_affected: 100%, timeout: 10m}
faults:
  - {id: host-is-lost, fault: FAULT, host: HOST, target: {learners: [learner-1]}, at: {round: 20},
     for: 15s}
expect:
  - {check: participation, min_share: 5%}  # a pod gets what the other tests leave of the cores
  - {check: rejoin, within: 120s, contributions: 1}
  - {check: ledger, answer_within: 30s}
  - {check: agreement}
  - {check: versions}
  - {check: cleanup}
"""


@pytest.mark.parametrize(("fault", "host", "signal"), [
    pytest.param("host.kill", 1, "SIGKILL", marks=pytest.mark.gate),
    pytest.param("chip.fail", 1, "SIGABRT", marks=pytest.mark.soak),
])  # fmt: skip
def test_a_learner_that_loses_a_host_comes_back_and_contributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, host: int, signal: str
) -> None:
    text = PLAN
    words = {"CONTEXT": CONTEXT, "NAMESPACE": NAMESPACE, "FAULT": fault, "HOST": str(host)}
    for word, value in words.items():
        text = text.replace(word, value)
    with cluster(monkeypatch) as here:
        ran = passed(text, tmp_path)
        assert remains(here, run_name(ran.record)) == ()
    history = ran.history
    lost = [one.payload for one in history.of(HostLost) if one.payload.signal is not None]
    assert [(one.host, one.signal) for one in lost] == [(host, signal)]
    first, *_ = [one.payload for one in history.of(NodeExited) if one.payload.node == SLICE]
    assert (first.incarnation, first.signal) == (1, signal)
    started = [(one.payload.incarnation, one.payload.host) for one in history.of(HostStarted)]
    assert started == [(1, 0), (1, 1), (2, 0), (2, 1)]
