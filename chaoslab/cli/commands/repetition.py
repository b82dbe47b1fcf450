"""`chaoslab run --repeat`: one plan many times, because one green run says little.

run_once, again and again ─► JudgedRun, each with a record of its own ─► flake rates, exit code
    └─ ends early: interrupted, the harness broke, or --until-failure met one
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import click

from chaoslab.checks.gate import Gate
from chaoslab.cli.commands.options import bundled, share_or_none
from chaoslab.cli.commands.output import print_result
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.report.repeated import repeated_json, repeated_page
from chaoslab.run.judged_run import JudgedRun

UNTIL_FAILURE_RUNS = 100
"""Runs of --until-failure, unless --repeat gives another number."""
_WORST = (
    ExitCode.INTERRUPTED, ExitCode.BROKEN, ExitCode.FAIL, ExitCode.UNKNOWN, ExitCode.PASS,
)  # fmt: skip


def allowed(text: str) -> int | float:
    """A number of runs from `2`, or a share of them from `5%`; PlanError for anything else."""
    if text.isdecimal():
        return int(text)
    found = share_or_none(text)
    if found is None:
        raise PlanError(f"--tolerate {text}: write a number of runs, or a share below 100% as 5%")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating:
    """Number of runs of a plan, and how many of them may fail."""

    times: int
    ends_at_failure: bool = False
    gate: Gate = field(default_factory=Gate)
    """Verdicts that are accepted."""
    allowed: int | float | None = None
    """Runs that may be FAIL or UNKNOWN: a number, or as a float a share of those made."""

    def __post_init__(self) -> None:
        most = 1 if self.ends_at_failure else self.times
        if isinstance(self.allowed, int) and self.allowed >= most:
            raise PlanError(
                f"--tolerate {self.allowed}: at most {plural(most, 'run')} can be other than PASS "
                f"here, so the gate could never fail: tolerate at most {most - 1}"
            )

    @property
    def is_plain(self) -> bool:
        """Whether nothing but a number of runs was asked for."""
        return not self.ends_at_failure and self.allowed is None

    def carry_out(self, run_once: Callable[[], JudgedRun], *, as_json: bool) -> ExitCode:
        """Run, show how often each finding was not PASS, and the exit code of all.

        A run that cannot be made raises what it raises, after those before it were shown.
        """
        made: list[JudgedRun] = []
        try:
            while len(made) < self.times and not self._is_over(made):
                made.append(run_once())
                self._announce(made)
        finally:
            if made:
                self._show(made, as_json=as_json)
        return self.exit_code(made)

    def exit_code(self, made: Sequence[JudgedRun]) -> ExitCode:
        """The worst; PASS if all that is worse than that is FAIL or UNKNOWN, and allowed."""
        codes = {self._code(judged) for judged in made}
        worst = next(code for code in _WORST if code in codes)
        if worst not in (ExitCode.FAIL, ExitCode.UNKNOWN) or self.allowed is None:
            return worst
        flaky = sum(self._code(judged) is not ExitCode.PASS for judged in made)
        most = self.allowed if isinstance(self.allowed, int) else self.allowed * len(made)
        return ExitCode.PASS if flaky <= most else worst

    def _is_over(self, made: Sequence[JudgedRun]) -> bool:
        if not made:
            return False
        last = self._code(made[-1])
        has_failed = last is not ExitCode.PASS
        return last in (ExitCode.INTERRUPTED, ExitCode.BROKEN) or (
            self.ends_at_failure and has_failed
        )

    def _code(self, judged: JudgedRun) -> ExitCode:
        if judged.error is not None:
            return judged.error.exit_code
        return self.gate.judge(judged.verdict).exit_code

    def _announce(self, made: Sequence[JudgedRun]) -> None:
        last = made[-1]
        where = shown_path(last.directory.path)
        click.echo(f"{len(made)}/{self.times} {last.verdict.outcome} {where}", err=True)
        for reason in self.gate.judge(last.verdict).reasons:
            click.echo(f"gate: {reason}", err=True)
        if last.error is not None:
            click.echo(f"chaoslab: {last.error}", err=True)

    def _show(self, made: Sequence[JudgedRun], *, as_json: bool) -> None:
        exit_code = self.exit_code(made)
        verdicts = [judged.verdict for judged in made]
        records = [
            {
                "record": str(judged.directory.path),
                "outcome": judged.verdict.outcome.value,
                "exit_code": int(self._code(judged)),
            }
            for judged in made
        ]
        whole = {**repeated_json(verdicts), "exit_code": int(exit_code), "records": records}
        page = repeated_page(made[0].directory.plan_name, verdicts)
        print_result(whole, page, as_json=as_json)
        if as_json:
            return
        if exit_code is ExitCode.PASS and any(self._code(one) is not ExitCode.PASS for one in made):
            click.echo("tolerated: not every run is PASS, and --tolerate allows that", err=True)


def _repeating(
    repeat: int | None,
    until_failure: bool,  # the value of an option
    tolerate: str | None,
) -> Repeating | None:
    if repeat is None and not until_failure:
        if tolerate is not None:
            raise PlanError("--tolerate is about several runs: also pass --repeat N")
        return None
    return Repeating(
        times=repeat or UNTIL_FAILURE_RUNS,
        ends_at_failure=until_failure,
        allowed=None if tolerate is None else allowed(tolerate),
    )


repeat_options = bundled(
    "repeating",
    _repeating,
    click.option(
        "--repeat",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Run the plan N times and count how often each finding is not PASS.",
    ),
    click.option(
        "--until-failure",
        is_flag=True,
        help=f"Repeat until a run is not PASS, at most {UNTIL_FAILURE_RUNS} times or --repeat.",
    ),
    click.option(
        "--tolerate",
        metavar="N|P%",
        help="With --repeat: exit with 0 if at most this many runs, or this share, are not PASS.",
    ),
)
