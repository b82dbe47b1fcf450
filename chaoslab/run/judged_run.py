"""From a prepared plan to a verdict on disk: the one page that joins running and judging.

    Prepared ─► run_plan ─► RunDirectory ─► judge_and_report ─► JudgedRun
                                 └─► verdict.json, junit.xml, report.md, report.html, run.json

`chaoslab run` and the pytest fixture both come through here, so they cannot differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaoslab.checks.base import Check, Outcome
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.errors import ChaoslabError, ExitCode, FleetError, HarnessBug, PlanError
from chaoslab.core.garbage import without_collection
from chaoslab.core.payloads import RunStarted
from chaoslab.plan.file import load
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.plans import Prepared
from chaoslab.record.history import History
from chaoslab.record.journal import Observer
from chaoslab.record.journal_file import JOURNAL
from chaoslab.record.run_directory import RESOLVED_PLAN, RunDirectory
from chaoslab.report.files import write_reports
from chaoslab.report.web.page import write_page
from chaoslab.run.experiment import run_plan, was_interrupted
from chaoslab.run.operators import Inbox
from chaoslab.run.records import died_early, history_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run on record and what was found in it."""

    directory: RunDirectory
    history: History
    verdict: Verdict
    error: ChaoslabError | None = None
    """Why the harness broke, if it did."""


def run_and_judge(
    prepared: Prepared,
    root: Path,
    observers: Sequence[Observer] = (),
    *,
    remember: Callable[[Path], object] = lambda _: None,
    await_twin: Callable[[Sequence[str]], object] = lambda _: None,
    inbox: Inbox | None = None,
) -> JudgedRun:
    """Run, judge, write the reports; `remember` is told the run's directory once it is there.

    `await_twin` is told which checks failed so far, if the twin is yet to be run. `inbox`: orders
    of the operators of a game-day.

    If the harness breaks during the run, the record so far is judged. PlanError and AbilityError
    come before anything was started.
    """
    checks = expected(prepared.plan)
    own: list[RunDirectory] = []

    def made(directory: RunDirectory) -> None:
        own.append(directory)
        remember(directory.path)

    def before_twin(run: History) -> None:
        findings = judge(run, checks).findings
        await_twin([one.check for one in findings if one.outcome is Outcome.FAIL])

    try:
        return run_plan(
            prepared,
            root,
            observers,
            judge=partial(judge_and_report, checks=checks),
            made=made,
            before_twin=before_twin,
            inbox=inbox,
        )
    except ChaoslabError as error:
        error.args = tuple(map(prepared.text.secrets.text, map(str, error.args)))
        if not own or not (own[0].path / JOURNAL).is_file():
            raise
        try:
            return replace(judge_and_report(own[0], checks), error=error)
        except FleetError as worse:  # the disk that broke the run refuses the verdict, too
            raise error from worse


def judge_and_report(directory: RunDirectory, checks: Sequence[Check]) -> JudgedRun:
    """Judge a run by its record alone, and write the verdict and the reports into it."""
    judged = read_and_judge(directory, checks)
    write_reports(directory.path, judged.verdict, judged.history)
    with without_collection():
        write_page(directory.path, judged.verdict, judged.history)
    answers = judged.verdict.to_json()
    kept = ("exit_code", "training_continued", "learners_rejoined")
    directory.note(verdict=judged.verdict.outcome.value, **{key: answers[key] for key in kept})
    return judged


def read_and_judge(directory: RunDirectory, checks: Sequence[Check]) -> JudgedRun:
    """What these checks find in a record; nothing is written."""
    with without_collection():
        history = history_of(directory)
        _refuse_another_plan(directory, history)
        verdict = judge(history, checks)
    if was_interrupted(directory):
        verdict = replace(verdict, exit_code=ExitCode.INTERRUPTED)
    return JudgedRun(directory=directory, history=history, verdict=verdict)


def expected(plan: FaultPlan) -> tuple[Check, ...]:
    """The checks under `expect`, in the plan's order."""
    checks = tuple(spec.settings for spec in plan.expect)
    return tuple(check if isinstance(check, Check) else _no_check(check) for check in checks)


def recorded_checks(directory: RunDirectory) -> tuple[Check, ...]:
    """What the plan of a run on record expects."""
    path = directory.path / RESOLVED_PLAN
    if not path.is_file():
        if died_early(directory):
            return ()
        raise PlanError(f"{directory.path} has no plan: name one with --expect-from PLAN")
    plan, _ = load(path, kinds(), is_record=True)
    return expected(plan)


def _refuse_another_plan(directory: RunDirectory, history: History) -> None:
    """FleetError if the plan on record is not the one that was carried out, byte for byte."""
    started = history.last(RunStarted)
    sealed = started.payload.plan_digest if started else None
    found = directory.plan_digest()
    if sealed and found is not None and found != sealed:
        raise FleetError(
            f"{directory.path / RESOLVED_PLAN} was changed after the run began: put back a copy, "
            "or move it away and say whose `expect` to use with --expect-from PLAN"
        )


def _no_check(settings: object) -> Check:
    raise HarnessBug(f"{settings!r} stands under `expect` and is not a check")
