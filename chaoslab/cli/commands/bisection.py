"""`chaoslab run --bisect`: the first commit of the user's repository with which a plan fails."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli.commands.output import print_result, table, typed_path
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.prepare.plans import Asked
from chaoslab.record.run_directory import RunDirectory
from chaoslab.replay.bisect import Bisected, BisectEnding, bisect
from chaoslab.replay.commit_runs import CommitRun, CommitRuns
from chaoslab.replay.commits import Repository
from chaoslab.replay.minimise import Answer

_FOLDER = "bisect"
_STYLES = {Answer.FAILS: "bold red", Answer.PASSES: "green"}
_EXIT_CODES = {
    BisectEnding.FOUND: ExitCode.PASS,
    BisectEnding.INTERRUPTED: ExitCode.INTERRUPTED,
    BisectEnding.BROKEN: ExitCode.BROKEN,
}


def bisect_commits(
    asked: Asked, ends: tuple[str, str], out: Path, *, tries: int, quiet: bool, as_json: bool
) -> ExitCode:
    """Find the first bad commit between a good and a bad one, and print it; the exit code.

    PlanError if they are no two commits in this order, or if the plan would not be the commit's.
    """
    good, bad = ends
    repository = Repository.around(Path.cwd())
    first, last = repository.commit(good), repository.commit(bad)
    if first == last or not repository.is_before(first, last):
        raise PlanError(f"{good} is not an ancestor of {bad}: name a commit before it")
    count = len(repository.suspects([first], last))
    halvings = math.ceil(math.log2(count)) if count else 0
    progress = _Progress(repository=repository, is_quiet=quiet, about=2 + halvings)
    with repository.work_tree(last) as tree:
        runs = CommitRuns(
            repository=repository,
            tree=tree,
            asked=asked,
            out=(out / _FOLDER).absolute(),
            options=("--quiet",) if quiet else (),
            tries=tries,
            begin=progress.begin,
            tell=progress.tell,
        )
        runs.refuse_missing_plan(last, first)
        progress.say(
            f"{plural(count, 'commit')} may be the first that fails; both ends are tried first"
        )
        runs.refuse_other_code()
        with runs.handling_signals():
            found = bisect(repository, first, last, runs)
    code = _EXIT_CODES.get(found.ending, ExitCode.UNKNOWN)
    print_result(
        {**_json(found, progress), "exit_code": int(code)},
        _page(found, progress),
        as_json=as_json,
        then=_next(found, progress),
    )
    return code


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Progress of a bisection, printed as it advances."""

    repository: Repository
    is_quiet: bool
    about: int
    """Estimated number of commits to try, if none is skipped."""
    runs: list[CommitRun] = field(default_factory=list)
    begun: int = 0

    def begin(self, commit: str) -> None:
        """The next commit."""
        self.begun += 1
        self.say(f"{self.begun} of about {self.about}: {self.repository.title(commit)}")

    def tell(self, run: CommitRun) -> None:
        """Count and print one more run."""
        self.runs.append(run)
        where = f", {shown_path(run.directory.path)}" if run.directory else ""
        self.say(f"{self.repository.title(run.commit)}: {run.answer}{where}")

    def say(self, text: str) -> None:
        """Print to stderr."""
        if not self.is_quiet:
            click.echo(text, err=True)

    def record(self, commit: str | None, answer: Answer) -> RunDirectory | None:
        """Record of the last run of a commit with this answer."""
        found = [run.directory for run in self.runs if (run.commit, run.answer) == (commit, answer)]
        return found[-1] if found else None


def _next(found: Bisected, progress: _Progress) -> tuple[str, str] | None:
    if found.first_bad is None:
        return None
    passed = [commit for commit, answer in found.answers if answer is Answer.PASSES]
    before = progress.record(passed[-1], Answer.PASSES) if passed else None
    after = progress.record(found.first_bad, Answer.FAILS)
    if found.ending is BisectEnding.FOUND and before and after:
        paths = f"{typed_path(before.path)} {typed_path(after.path)}"
        return f"chaoslab compare {paths}", "the last good commit and the first bad one"
    return f"git show {found.first_bad[:12]}", "the earliest commit that is known to fail"


def _page(found: Bisected, progress: _Progress) -> RenderableType:
    tried = table("answer", "run", "commit", wraps=("commit",))
    for run in progress.runs:
        tried.add_row(
            Text(run.answer.value, style=_STYLES.get(run.answer, "magenta")),
            run.directory.short_id if run.directory else "-",
            Text(progress.repository.title(run.commit)),
        )
    return Group(tried, *(Text(line, style="bold") for line in _said(found, progress.repository)))


def _said(found: Bisected, repository: Repository) -> Sequence[str]:
    """Result of the search, one line per fact."""
    last = found.answers[-1][1] if found.answers else None
    match found.ending:
        case BisectEnding.BAD_DOES_NOT_FAIL | BisectEnding.GOOD_DOES_NOT_PASS if (
            last is Answer.UNRESOLVED
        ):
            side = "BAD" if found.first_bad is None else "GOOD"
            why = "its run was refused or is UNKNOWN"
            return [f"{side} has no answer, {why}: mend that, or name another commit"]
        case BisectEnding.BAD_DOES_NOT_FAIL:
            return [
                "BAD does not fail, so there is nothing to look for: raise --repeat if it is rare"
            ]
        case BisectEnding.GOOD_DOES_NOT_PASS:
            return ["GOOD does not pass: name an earlier commit"]
    if found.first_bad is None:
        return [f"{found.ending} before anything was known"]
    title = repository.title(found.first_bad)
    if found.ending is BisectEnding.FOUND:
        return [f"the first bad commit is {title}"]
    others = [f"  {repository.title(one)}" for one in found.suspects]
    return [f"{found.ending}: the first bad commit is {title}, or one of", *others]


def _json(found: Bisected, progress: _Progress) -> Mapping[str, Json]:
    return {
        "ending": found.ending.value,
        "first_bad": found.first_bad,
        "suspects": list(found.suspects),
        "runs": [
            {
                "commit": run.commit,
                "answer": run.answer.value,
                "run_exit_code": run.exit_code,
                "record": str(run.directory.path) if run.directory else None,
            }
            for run in progress.runs
        ],
    }
