"""`chaoslab replay --minimise`: the least of a schedule that still fails, by real runs.

record ─► cause, schedule ─► minimise ─► a line for each trial ─► minimised.yaml, page, JSON
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli import completing
from chaoslab.cli.commands.options import bundled, duration
from chaoslab.cli.commands.output import print_result, table, typed_path
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ChaoslabError, ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.private_files import require_folder
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural, show_duration
from chaoslab.plan.file.writing import listed, written
from chaoslab.plan.model import Injection
from chaoslab.plan.schedule import Schedule, preview
from chaoslab.prepare.plans import Prepared
from chaoslab.record.run_directory import RunDirectory
from chaoslab.replay.again import recorded_schedule
from chaoslab.replay.minimise import Answer, Budget, Candidate, Ending, Minimised, minimise
from chaoslab.replay.trials import (
    MINIMISED_YAML,
    RealTrials,
    TrialRun,
    cause_of,
    recorded_plan,
    write_plan,
)
from chaoslab.report.files import read_verdict
from chaoslab.run.judged_run import JudgedRun, run_and_judge

_FOLDER = "minimise"
_STYLES = {Answer.FAILS: "bold red", Answer.PASSES: "green"}
_EXIT_CODES = {
    Ending.MINIMAL: ExitCode.PASS,
    Ending.WITHOUT_FAULTS: ExitCode.PASS,
    Ending.BUDGET_SPENT: ExitCode.PASS,
    Ending.NOT_REPRODUCED: ExitCode.UNKNOWN,
    Ending.INTERRUPTED: ExitCode.INTERRUPTED,
    Ending.BROKEN: ExitCode.BROKEN,
}
_SENTENCES = {
    Ending.MINIMAL: "nothing more can be taken away",
    Ending.WITHOUT_FAULTS: "no fault is the cause: look at the code, the machine and the bounds",
    Ending.BUDGET_SPENT: "the budget is spent: less may fail, too",
    Ending.NOT_REPRODUCED: "the whole schedule did not fail again: raise --tries, or look whether "
    "the code or the machine changed",
    Ending.INTERRUPTED: "interrupted: less may fail, too",
    Ending.BROKEN: "the harness failed: less may fail, too",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimising:
    """Options of the command line about a search."""

    budget_s: float | None
    runs: int
    tries: int
    checks: Sequence[str]

    def carry_out(
        self, directory: RunDirectory, out: Path, settings: Sequence[str], invocation: Invocation,
        *, quiet: bool, as_json: bool,
    ) -> ExitCode:  # fmt: skip
        """Search, print what was found, and the exit code; what broke the harness is raised."""
        search = _Search(
            asked=self, directory=directory, out=out, settings=settings, invocation=invocation,
            is_quiet=quiet,
        )  # fmt: skip
        found = search.carry_out()
        path = search.folder / MINIMISED_YAML
        then = (f"chaoslab run {typed_path(path)}", "the failure alone")
        print_result(
            search.to_json(found),
            search.page(found),
            as_json=as_json,
            then=then if path.is_file() else None,
        )
        if search.error is not None:
            raise search.error
        return _EXIT_CODES[found.ending]


def _minimising(
    is_search: bool,  # the value of an option
    budget: float | None,
    max_runs: int,
    tries: int,
    checks: Sequence[str],
) -> Minimising | None:
    if not is_search and (checks or budget is not None or tries > 1):
        raise PlanError("--budget, --tries and --check need --minimise: pass that, too")
    asked = Minimising(budget_s=budget, runs=max_runs, tries=tries, checks=checks)
    return asked if is_search else None


minimise_options = bundled(
    "minimising",
    _minimising,
    click.option("--minimise", "is_search", is_flag=True, help="Find the fewest faults, shortest "
                 "and mildest, that still fail."),
    click.option("--budget", callback=duration, metavar="TIME", help="With --minimise: begin no "
                 "run later than this after the first."),
    click.option("--max-runs", type=click.IntRange(1), default=60, show_default=True, metavar="N",
                 help="With --minimise: try at most N schedules."),
    click.option("--tries", type=click.IntRange(1), default=1, show_default=True, metavar="N",
                 help="With --minimise: run a schedule that does not fail N times."),
    click.option("--check", "checks", multiple=True, metavar="NAME",
                 shell_complete=completing.checks, help="With --minimise: look for the failure of "
                 "this check; repeatable."),
)  # fmt: skip


@dataclass(kw_only=True)
class _Search:
    asked: Minimising
    directory: RunDirectory
    out: Path
    settings: Sequence[str]
    invocation: Invocation
    is_quiet: bool
    told: list[TrialRun] = field(default_factory=list)
    error: ChaoslabError | None = None

    @cached_property
    def whole(self) -> Candidate:
        """The schedule of the record."""
        return recorded_schedule(self.directory).injections

    @property
    def folder(self) -> Path:
        """Folder of the trials' records, apart from runs: a trial is no run of the plan."""
        return self.out / _FOLDER / self.directory.id

    def carry_out(self) -> Minimised:
        """Search, and write what was found as a plan."""
        verdict = read_verdict(self.directory.path)
        if verdict is None:
            path = shown_path(self.directory.path)
            raise PlanError(
                f"{path} was never judged: call `chaoslab show {quote(str(path))} --judge` first"
            )
        plan = recorded_plan(self.directory)
        runner = RealTrials(
            plan=plan,
            settings=self.settings,
            cause=cause_of(verdict, self.asked.checks),
            folder=self.folder,
            carry_out=self._run,
            tell=self._tell,
            tries=self.asked.tries,
        )
        require_folder(self.folder)
        self._say(
            f"the whole schedule first, {_count(self.whole)}; at most "
            f"{plural(self.asked.runs, 'run')}{self._length()}"
        )
        budget = Budget(runs=self.asked.runs, seconds=self.asked.budget_s, now_s=time.monotonic)
        found = minimise(self.whole, runner, budget)
        if any(one.answer is Answer.FAILS for one in found.trials):
            write_plan(plan, found.best, self.folder / MINIMISED_YAML)
        return found

    def _length(self) -> str:
        """Length of one run, by its record."""
        length_s = self.directory.lasted_s
        return "" if length_s is None else f", each about {show_duration(round(length_s))}"

    def _run(self, prepared: Prepared, folder: Path) -> JudgedRun:
        self.invocation.secrets = prepared.text.secrets
        judged = run_and_judge(prepared, folder, remember=self.invocation.remember)
        self.error = self.error or judged.error
        return judged

    def _tell(self, told: TrialRun) -> None:
        self.told.append(told)
        self._say(
            f"{len(self.told)}: {told.answer} ({told.judged.verdict.outcome}) after "
            f"{told.took_s:.0f} s, {_count(told.candidate)}: {self._described(told.candidate)}"
        )

    def _described(self, candidate: Candidate) -> str:
        """The faults that are left, each with what was reduced against the whole schedule."""
        original = {one.number: one for one in self.whole}
        return ", ".join(_described(one, original[one.number]) for one in candidate) or "-"

    def _say(self, text: str) -> None:
        if not self.is_quiet:
            click.echo(text, err=True)

    def page(self, found: Minimised) -> RenderableType:
        """Page of what was tried, and what is left."""
        tried = table("trial", "answer", "verdict", "faults", "s", "record", wraps=("faults",))
        for number, one in enumerate(self.told, start=1):
            tried.add_row(
                str(number), Text(one.answer.value, style=_STYLES.get(one.answer, "magenta")),
                one.judged.verdict.outcome.value, Text(self._described(one.candidate)),
                f"{one.took_s:.0f}",
                one.judged.directory.short_id,
            )  # fmt: skip
        before = len(self.whole)
        left = preview(Schedule(seed=0, injections=found.best))
        head = f"{_count(found.best)} of {before} left; {_SENTENCES[found.ending]}"
        return Group(tried, Text(head, style="bold"), *map(Text, left))

    def to_json(self, found: Minimised) -> Mapping[str, Json]:
        """The result as data."""
        path = self.folder / MINIMISED_YAML
        return {
            "ending": found.ending.value,
            "exit_code": int(_EXIT_CODES[found.ending]),
            "injections": preview(Schedule(seed=0, injections=found.best)),
            "plan": str(path) if path.is_file() else None,
            "trials": [
                {
                    "answer": one.answer.value,
                    "verdict": one.judged.verdict.outcome.value,
                    "faults": [injection.spec for injection in one.candidate],
                    "took_s": round(one.took_s, 1),
                    "record": str(one.judged.directory.path),
                }
                for one in self.told
            ],
        }


def _described(one: Injection, original: Injection) -> str:
    """`slow (for 2s, factor 3x)`: the fault, and what of it is not as it was."""
    before = written(original.settings)
    changed = {key: value for key, value in written(one.settings).items()
               if value != before.get(key)}  # fmt: skip
    less = [
        f"for {show_duration(one.for_s)}" if one.for_s not in (None, original.for_s) else "",
        f"on {', '.join(one.targets)}" if one.targets != original.targets else "",
        listed(changed),
    ]
    return f"{one.spec} ({', '.join(filter(None, less))})" if any(less) else one.spec


def _count(candidate: Candidate) -> str:
    return f"{len(candidate)} fault{'s'[: len(candidate) != 1]}"
