"""One trial: a short plan with something wrong, run for real, and whether the verdict says so.

    Trial ─► plan + --set fleet.programs…, or a mutant fleet ─► run, judge ─► Result
                                                                  │
         not PASS, and the named check finds what was wrong (codes, culprits) ─► caught
         not PASS, for another reason only ─► mistaken           PASS ─► missed

A trial that expects nothing wrong is a control: the same plan with the real thing must PASS.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import AbilityError, ExitCode, FleetError, HarnessBug
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.journal import Observer
from chaoslab.run.judged_run import JudgedRun, run_and_judge
from chaoslab.selftest.mutants.fleets import FLEETS

PLANS = Path(__file__).with_name("plans")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Something wrong, and what must find it."""

    name: str
    plan: str
    """Plan of selftest by its name in `plans/`, or a plan that comes with chaoslab."""
    wrong: str = ""
    """Defect, as a clause; empty for a control."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Mutant in place of each role's program."""
    fleet: str = ""
    """The mutant that stands in for the fleet of processes."""
    settings: Sequence[str] = ()
    """Overrides of the plan, as with --set."""
    check: str = ""
    """The finding that must not be PASS."""
    codes: tuple[str, ...] = ()
    """Codes that it must give."""
    culprits: tuple[str, ...] = ()
    """Culprits that it must name."""

    @property
    def is_control(self) -> bool:
        """Whether nothing is wrong, and PASS is the right answer."""
        return not self.check

    def prepare(self) -> Prepared:
        """Its plan, ready to run; PlanError or HarnessBug if it cannot."""
        own = PLANS / f"{self.plan}.yaml"
        programs = [
            f"fleet.programs.{role}={program_of(role, name)}"
            for role, name in self.programs.items()
        ]
        asked = Asked(
            plan=str(own) if own.is_file() else self.plan, settings=[*self.settings, *programs]
        )
        prepared = prepare(asked)
        if not self.fleet:
            return prepared
        fleet_setup = replace(prepared.fleet_setup, fleet=FLEETS[self.fleet])
        return replace(prepared, fleet_setup=fleet_setup)


def program_of(role: str, mutant: str) -> str:
    """A mutant of a syncer or a learner as a plan names it under `fleet.programs`."""
    return f"chaoslab.selftest.mutants.{role} {mutant}"


class Answer(StrEnum):
    """Result of a trial."""

    CAUGHT = "caught"
    PASSED = "passed"
    """A control, as it should be."""
    MISSED = "missed"
    """The verdict is PASS, and something was wrong."""
    MISTAKEN = "mistaken"
    """The verdict is not PASS, but not because of what was wrong."""
    ALARM = "alarm"
    """A control that is not PASS: nothing was wrong."""
    UNABLE = "unable"
    """This machine lacks what the trial needs; nothing was started."""
    BROKEN = "broken"
    """The harness broke."""
    INTERRUPTED = "interrupted"

    @property
    def is_right(self) -> bool:
        """Whether the harness answered as it should."""
        return self in {Answer.CAUGHT, Answer.PASSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A trial that is over. `sentence` is what the verdict says of what was wrong."""

    trial: Trial
    answer: Answer
    check: str
    sentence: str
    took_s: float
    verdict: Outcome | None = None
    directory: Path | None = None


def carry_out_trial(
    trial: Trial,
    root: Path,
    observers: Sequence[Observer] = (),
    *,
    remember: Callable[[Path], object] = lambda _: None,
) -> Result:
    """Run a trial and look at its verdict; its record is kept below `root`: see `run_and_judge`.

    A harness that breaks is a result, too, and so is a machine on which the trial cannot be had.
    PlanError is left to the caller.
    """
    began_s = time.monotonic()
    try:
        judged = run_and_judge(trial.prepare(), root, observers, remember=remember)
    except (AbilityError, FleetError, HarnessBug) as error:
        return Result(
            trial=trial,
            answer=Answer.UNABLE if isinstance(error, AbilityError) else Answer.BROKEN,
            check="",
            sentence=str(error),
            took_s=time.monotonic() - began_s,
        )
    answer, finding = answer_of(trial, judged.verdict)
    if judged.error is not None and answer is not Answer.INTERRUPTED:
        answer = Answer.BROKEN
    return Result(
        trial=trial,
        answer=answer,
        check=finding.check if finding else "",
        sentence=_sentence(judged, finding),
        took_s=time.monotonic() - began_s,
        verdict=judged.verdict.outcome,
        directory=judged.directory.path,
    )


def answer_of(trial: Trial, verdict: Verdict) -> tuple[Answer, Finding | None]:
    """Answer of a verdict about a trial, and the deciding finding; None without one."""
    doubts = [finding for finding in verdict.findings if finding.outcome is not Outcome.PASS]
    told = next((finding for finding in doubts if _names_it(finding, trial)), None)
    first = told or (doubts[0] if doubts else None)
    if verdict.exit_code is ExitCode.INTERRUPTED:
        return Answer.INTERRUPTED, first
    if trial.is_control:
        return (Answer.ALARM if doubts else Answer.PASSED), first
    if told is not None:
        return Answer.CAUGHT, told
    if verdict.exit_code is ExitCode.BROKEN:
        return Answer.BROKEN, first
    return (Answer.MISTAKEN if doubts else Answer.MISSED), first


def _names_it(finding: Finding, trial: Trial) -> bool:
    return (
        finding.check == trial.check
        and set(trial.codes) <= set(finding.codes)
        and set(trial.culprits) <= set(finding.culprits)
    )


def _sentence(judged: JudgedRun, finding: Finding | None) -> str:
    if judged.error is not None:
        return str(judged.error)
    return finding.reason if finding else "every check holds"
