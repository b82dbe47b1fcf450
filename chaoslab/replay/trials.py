"""Candidates of a search as real runs: each a plan without chance, its record, and an answer.

    Candidate ─► explicit ─► plan file ─► prepare ─► carry_out ─► Verdict ─► Answer

A trial fails if one of the checks fails that failed at first, with one of the codes of then:
another failure is another bug, and leaves the question open.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.private_files import replace_file
from chaoslab.plan.file import load, resolved_yaml
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.replay.explicit import explicit
from chaoslab.replay.minimise import Answer, Candidate
from chaoslab.run.judged_run import JudgedRun

CANDIDATE_YAML = "candidate.yaml"
MINIMISED_YAML = "minimised.yaml"
Cause = frozenset[tuple[str, str]]
"""Check and code of what failed."""


def cause_of(verdict: Verdict, checks: Sequence[str] = ()) -> Cause:
    """Failures of a verdict; of these checks alone if any are named.

    PlanError without any: there is no failure to look for.
    """
    found = frozenset(
        (finding.check, code)
        for finding in verdict.findings
        if finding.outcome is Outcome.FAIL and (not checks or finding.check in checks)
        for code in finding.codes or ("",)
    )
    if not found:
        whose = f"{', '.join(checks)} did not fail" if checks else f"the run is {verdict.outcome}"
        raise PlanError(f"{whose}: name a run that FAILs")
    return found


def answer_of(judged: JudgedRun, cause: Cause) -> Answer:
    """What a run says about the cause."""
    code = judged.error.exit_code if judged.error is not None else judged.verdict.exit_code
    if code is ExitCode.INTERRUPTED:
        return Answer.INTERRUPTED
    if code is ExitCode.BROKEN:
        return Answer.BROKEN
    failing = {
        (finding.check, code)
        for finding in judged.verdict.findings
        if finding.outcome is Outcome.FAIL
        for code in finding.codes or ("",)
    }
    if failing & cause:
        return Answer.FAILS
    return Answer.PASSES if judged.verdict.outcome is Outcome.PASS else Answer.UNRESOLVED


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRun:
    """A run of a candidate, for observers of the search."""

    candidate: Candidate
    answer: Answer
    judged: JudgedRun
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTrials:
    """A `minimise.Runner` that runs each candidate for real."""

    plan: FaultPlan
    settings: Sequence[str]
    """Overrides of the plan, as on the command line."""
    cause: Cause
    folder: Path
    """Of the candidates' plans and records."""
    carry_out: Callable[[Prepared, Path], JudgedRun]
    tell: Callable[[TrialRun], object] = lambda _: None
    tries: int = 1
    """Number of runs after which a candidate counts as not failing."""

    def __call__(self, candidate: Candidate) -> Answer:
        """The worst of its runs; impossible if the plan is refused."""
        try:
            prepared = self._prepared(candidate)
        except PlanError:
            return Answer.IMPOSSIBLE  # it waits for a fault that is left out, or breaks a limit
        answers = []
        for _ in range(self.tries):
            answers.append(self._run(prepared, candidate))
            if answers[-1] not in (Answer.PASSES, Answer.UNRESOLVED):
                return answers[-1]
        return Answer.UNRESOLVED if Answer.UNRESOLVED in answers else Answer.PASSES

    def _prepared(self, candidate: Candidate) -> Prepared:
        path = write_plan(self.plan, candidate, self.folder / CANDIDATE_YAML)
        return prepare(Asked(plan=str(path), settings=self.settings))

    def _run(self, prepared: Prepared, candidate: Candidate) -> Answer:
        began_s = time.monotonic()
        judged = self.carry_out(prepared, self.folder)
        answer = answer_of(judged, self.cause)
        took_s = time.monotonic() - began_s
        self.tell(TrialRun(candidate=candidate, answer=answer, judged=judged, took_s=took_s))
        return answer


def write_plan(plan: FaultPlan, candidate: Candidate, path: Path) -> Path:
    """A candidate as a plan that can be run; FleetError when the disk refuses."""
    replace_file(path, resolved_yaml(explicit(plan, candidate)))
    return path


def recorded_plan(directory: RunDirectory) -> FaultPlan:
    """The plan of a run on record, in which secrets are names still."""
    plan, _ = load(directory.path / RESOLVED_PLAN, kinds(), is_record=True)
    return replace(plan, name=directory.plan_name)
