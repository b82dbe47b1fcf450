"""A plan against a system of others, for real: its record is judged like that of a syncer."""

from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.payloads import EvaluationMeasured
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.run.judged_run import JudgedRun, run_and_judge

HERE = Path(__file__).parent


def judged(root: Path, *settings: str, plan: Path | str = HERE / "averaging.yaml") -> JudgedRun:
    return run_and_judge(prepare(Asked(plan=str(plan), settings=settings)), root)


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {one.check: one.outcome.value for one in verdict.findings}


@pytest.mark.gate
@pytest.mark.alone
def test_half_of_the_learners_of_a_system_are_killed(tmp_path: Path) -> None:
    run = judged(tmp_path, "twin=false")
    found = outcomes(run.verdict)
    assert found.pop("continuity") in {"PASS", "UNKNOWN"}  # of a busy machine
    assert found.pop("survivors") in {"PASS", "UNKNOWN"}
    assert set(found.values()) == {"PASS"}, run.verdict.findings
    losses = [one.payload.loss for one in run.history.of(EvaluationMeasured)]
    assert losses[-1] < losses[0] - 1


@pytest.mark.deep
@pytest.mark.alone
def test_a_system_that_dies_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    run = judged(
        tmp_path,
        "faults.half-dies.target={syncer: all}",
        "limits.timeout=90s",
    )
    assert run.error is None
    assert run.verdict.outcome is Outcome.FAIL
    assert outcomes(run.verdict)["cleanup"] == "PASS"
