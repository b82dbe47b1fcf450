"""Learners whose links break, and one that does not dial again: the harness must tell them apart.

Real runs of a tiny plan. The link is refused for a while, so that the learner hears of it at once.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.run.judged_run import Judged
from chaoslab.selftest.mutants import VICTIM
from tests.test_trouble import finding_of, run

__all__ = ["run"]

REFUSED = """
version: 1
name: refused
seed: 1
training:
  learners: 3
  sync_every: 12
  suspect_after: 1500ms
  drop_after: 4s
  stop: {time: 26s}
control: none
baseline: {warmup: 2 rounds, window: 8 rounds, max_variation: 300%}
settle: 4s
limits: {min_alive: 0, max_affected: 100%, timeout: 2m}
faults:
  - {id: cut, fault: network.refuse, target: {learners: [learner-1]}, at: {round: 12}, for: 3s}
abort: [{when: {no_round_for: 60s}}]
expect:
  - {check: rejoin, within: 8s}
  - {check: recovery, within: 8s, min_share: 20%}
  - {check: staleness, max_rounds: 12, within: 8s}
  - {check: retries}
  - {check: ledger}
"""


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    path = tmp_path / "refused.yaml"
    path.write_text(REFUSED)
    return path


@pytest.mark.deep
@pytest.mark.alone
def test_a_learner_whose_link_was_refused_comes_back_by_itself(
    refused: Path, run: Callable[..., Judged]
) -> None:
    judged = run(refused)
    assert judged.verdict.exit_code is ExitCode.PASS, judged.verdict.explain()
    lives = {event.payload.incarnation for event in judged.history.of(Kind.MEMBER_JOINED)}
    assert lives == {1}, "no process was started again"
    back = [e for e in judged.history.of(Kind.LEARNER_JOINED) if e.payload.source == "resumed"]
    assert {event.payload.learner for event in back} == {VICTIM}


@pytest.mark.deep
@pytest.mark.alone
def test_a_learner_that_does_not_dial_again_is_found_out(
    refused: Path, run: Callable[..., Judged], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaoslab.run.run.FINISH_S", 5.0)  # it never hears that training has ended
    judged = run(refused, learner="no_reconnect")
    assert judged.verdict.exit_code is ExitCode.FAIL, judged.verdict.explain()
    for check in ("rejoin", "recovery", "staleness"):
        finding = finding_of(judged, check)
        assert finding.outcome is Outcome.FAIL, judged.verdict.explain()
        assert finding.culprits == (VICTIM,)
    assert judged.verdict.learners_rejoined[VICTIM].rejoined is False
    stepped = [e for e in judged.history.of(Kind.LEARNER_STEP) if e.payload.learner == VICTIM]
    (healed,) = judged.history.of(Kind.FAULT_HEALED)
    assert stepped[-1].time_s > healed.time_s + 8, "it trained on, by itself"
