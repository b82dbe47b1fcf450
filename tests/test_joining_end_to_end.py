"""A learner that was not there at the start joins a real training, and one leaves it in order."""

from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from tests.whole_runs import passed

pytestmark = [pytest.mark.deep, pytest.mark.alone]

PLAN = """
version: 1
name: one_joins
seed: 3
training: {learners: 2, reserve: 1, stop: {rounds: 50}}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 100%}
limits: {min_alive: 1, timeout: 3m}
faults:
  - id: one-joins
    fault: control.scale_up
    target: {reserve: all}
    at: {round: 20}
    for: rest
  - id: one-leaves
    fault: control.leave
    target: {learners: [learner-0]}
    at: {step: 20, of: learner-2}
    for: 4s
expect:
  - {check: rejoin, within: 60s, contributions: 1}
  - {check: ledger}
  - {check: agreement}
  - {check: versions}
  - {check: cleanup}
"""


def test_one_joins_and_one_leaves_and_everybody_ends_with_the_same(tmp_path: Path) -> None:
    ran = passed(PLAN, tmp_path)
    history = ran.history
    assert history.newcomers == ("learner-2",)
    joined = next(e for e in history.of(Kind.LEARNER_JOINED) if e.payload.learner == "learner-2")
    assert joined.data["source"] in ("donor", "syncer")
    assert any(version != 0 for version in joined.payload.versions.values())
    assert {e.payload.learner for e in history.of(Kind.LEARNER_FINAL)} >= {"learner-1", "learner-2"}
    left = [e for e in history.of(Kind.MEMBER_LEFT) if e.payload.learner == "learner-0"]
    assert left[0].payload.reason == "said_goodbye"
    assert ran.statuses == ["proved", "proved"]
