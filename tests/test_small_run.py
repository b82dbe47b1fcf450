"""The one real run of the quick tier: a learner is killed, comes back, and the run is judged PASS.

Real processes and sockets, chaoslab's own learners and syncer, the command line. Its bounds are so
wide that a busy machine keeps them: how fast a learner is back is what the gate tier measures.
"""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaoslab.core.events import Kind
from tests.generated_docs import ROOT
from tests.harness.machine import MARK, look
from tests.whole_runs import passed

pytestmark = pytest.mark.alone

PICTURE = ROOT / "docs" / "picture.py"

PLAN = """
version: 1
name: small
seed: 1
training:
  learners: 2
  step_time: 40ms
  fragments: 2
  sync_every: 4
  overlap: 1
  suspect_after: 20s
  drop_after: 60s
  inner: {batch: 1, sequence: 16}
  stop: {rounds: 24}
baseline: {warmup: 2 rounds, window: 6 rounds, max_variation: 1000%}
settle: 2m
limits: {min_alive: 1, timeout: 8m}
faults:
  - {id: one-dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 12}, for: 1s}
expect:
  - {check: continuity, max_gap: 60s}
  - {check: learners_rejoin, within: 90s}
  - {check: rejoin, within: 90s, contributions: 2, max_lag: 8}
  - {check: ledger, answer_within: 60s}
  - {check: agreement}
  - {check: versions}
  - {check: numeric_health}
  - {check: cleanup}
"""


def test_a_killed_learner_comes_back_and_trains_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, mark := str(tmp_path))
    ran = passed(PLAN, tmp_path, "--no-twin")
    history = ran.history
    (story,) = history.faults
    assert (story.targets, story.status) == (("learner-1",), "proved")
    lives = [e.payload.node for e in history.of(Kind.NODE_STARTED)]
    assert sorted(lives) == ["learner-0", "learner-1", "learner-1", "syncer"]
    again = [e.payload.incarnation for e in history.of(Kind.LEARNER_JOINED)
             if e.payload.learner == "learner-1"]  # fmt: skip
    assert again == [1, 2]
    assert not look(mark, tmp_path).processes
    drawn = tmp_path / "run.svg"  # as the README's
    subprocess.run([sys.executable, PICTURE, ran.record, drawn], check=True)
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")
