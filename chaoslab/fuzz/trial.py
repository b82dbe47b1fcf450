"""One trial of a fuzz run: a plan simulated in a folder that is removed, and what was violated.

FaultPlan ─► schedule ─► run_plan on the sim fleet ─► verdict ─► violations of the invariants
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ChaoslabError, PlanError
from chaoslab.core.payloads import RoundMerged, RunFinished, RunOutcome, Status
from chaoslab.experiments.simulated_runs import made_ready
from chaoslab.fuzz.plans import is_possible
from chaoslab.plan.model import FaultPlan, Injection
from chaoslab.replay.explicit import explicit
from chaoslab.run.experiment import run_plan
from chaoslab.run.judged_run import expected, judged_by

_CHECKS = ("versions", "ledger", "agreement", "quorum_progress", "succession", "handover")
INVARIANTS = frozenset({*_CHECKS, "unasked", "strangers"})
"""Checks and rules that apply whatever is done to a training."""
HARNESS = "harness"
"""Stands for a check where the run itself broke or did not end by its stop rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one plan."""

    plan: FaultPlan
    injections: tuple[Injection, ...]
    violations: frozenset[tuple[str, str]]
    """Check and code of each invariant that was violated."""
    reasons: tuple[str, ...] = ()
    """A sentence for each."""
    rounds: int = 0
    proved: int = 0
    """Number of injections whose effect was proved."""

    @property
    def is_failing(self) -> bool:
        """Whether an invariant was violated."""
        return bool(self.violations)


def run(plan: FaultPlan) -> Trial:
    """Simulate a plan and judge it. PlanError for one that is refused.

    KeyboardInterrupt if it was interrupted: that says nothing about the plan.
    """
    prepared = made_ready(plan)
    injections = prepared.schedule.injections
    with TemporaryDirectory(prefix="chaoslab-fuzz-") as folder:
        try:
            with run_plan(prepared, Path(folder)) as directory:
                pass
        except PlanError:
            raise
        except ChaoslabError as error:
            return Trial(
                plan=plan,
                injections=injections,
                violations=frozenset({(HARNESS, type(error).__name__)}),
                reasons=(str(error),),
            )
        judged = judged_by(expected(plan), directory)
    found, reasons = _violations(judged.verdict)
    finished = judged.history.last(RunFinished)
    outcome = finished.payload.outcome if finished else None
    if outcome is RunOutcome.INTERRUPTED:
        raise KeyboardInterrupt
    if outcome is not RunOutcome.COMPLETED:
        found |= {(HARNESS, str(outcome))}
        reasons.append(f"the run ended as {outcome}, not by its stop rule")
    return Trial(
        plan=plan,
        injections=injections,
        violations=frozenset(found),
        reasons=tuple(reasons),
        rounds=len(judged.history.of(RoundMerged)),
        proved=sum(one.status is Status.PROVED for one in judged.verdict.injections),
    )


def without(plan: FaultPlan, injections: Sequence[Injection]) -> FaultPlan:
    """The plan with these injections alone; PlanError if it would be refused."""
    reduced = replace(explicit(plan, injections), seed=plan.seed)
    if injections and not is_possible(reduced):
        raise PlanError("this part of the plan is refused")
    return reduced


def _violations(verdict: Verdict) -> tuple[set[tuple[str, str]], list[str]]:
    failing = [
        finding
        for finding in verdict.findings
        if finding.outcome is Outcome.FAIL and finding.check in INVARIANTS
    ]
    codes = {(one.check, code) for one in failing for code in one.codes or ("",)}
    return codes, [f"{one.check}: {one.reason}" for one in failing]
