"""A training whose learner dies and finds its chip held, while a second task asks for another's."""

from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.core.payloads import ChipFreed, ChipHeld, ChipTried, NodeExited
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import carry_out

pytestmark = [pytest.mark.deep, pytest.mark.alone]
PLAN = """
version: 1
name: dirty_restart
training: {learners: 3, model: nano, quorum: 1, stop: {rounds: 150}}
control: none
baseline: {max_variation: 80%}
limits: {min_alive: 2, timeout: 10m}
faults:
  - id: held
    fault: chip.held
    target: {learners: [learner-1]}
    at: {round: 40}
    times: 2
    every: 6s
    for: 14s
  - id: shared
    fault: chip.shared
    target: {learners: [learner-2]}
    at: {after: held}
    every: 500ms
    for: 3s
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 60s, contributions: 3}
  - {check: ledger}
  - {check: cleanup}
"""


def test_a_learner_whose_chip_is_held_comes_back_when_it_is_free(tmp_path: Path) -> None:
    plan = tmp_path / "dirty_restart.yaml"
    plan.write_text(PLAN)
    judged = carry_out(prepare(Asked(plan=str(plan))), tmp_path / "runs")
    assert judged.error is None
    assert judged.verdict.outcome is Outcome.PASS, judged.verdict.explain()
    history = judged.history
    exits = [one.payload.exit_code for one in history.of(NodeExited) if one.source == "learner-1"]
    assert exits.count(69) == 2, "each start found the chip in use"
    (held,), (freed,) = history.of(ChipHeld), history.of(ChipFreed)
    assert held.payload.holder == freed.payload.holder
    tried = [one.payload for one in history.of(ChipTried)]
    assert [one.is_granted for one in tried] == [False] * 3
    assert len({one.holder for one in tried}) == 1, "the learner's own process"
