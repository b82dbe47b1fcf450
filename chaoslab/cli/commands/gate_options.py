"""The options that change which verdict exits with 0: --fail-on, --min-margin and --expect."""

from collections.abc import Callable
from functools import wraps

import click

from chaoslab.checks.gate import MIN_MARGIN, FailOn, Gate
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.units import share


def gate_options(function: Callable[..., None]) -> Callable[..., None]:
    """--fail-on, --min-margin and --expect, given to the command as one `gate`."""

    @click.option(
        "--fail-on",
        type=click.Choice([one.value for one in FailOn]),
        help="Exit with 1 also for UNKNOWN; with `weak` also for a PASS near its bound.",
    )
    @click.option(
        "--min-margin",
        metavar="P%",
        help=f"With --fail-on weak: the least margin of each finding.  [default: {MIN_MARGIN:.0%}]",
    )
    @click.option(
        "--expect",
        "expected",
        multiple=True,
        metavar="fail:CHECK",
        help="Exit with 0 only if this check is FAIL, as of a run that is broken on purpose; "
        "repeatable: all of them.",
    )
    @wraps(function)
    def with_gate(
        *context: click.Context,
        fail_on: str | None,
        min_margin: str | None,
        expected: tuple[str, ...],
        **others: object,
    ) -> None:
        if expected and fail_on:
            raise PlanError("--expect accepts a FAIL alone: leave out --fail-on")
        if min_margin is not None and fail_on != FailOn.WEAK:
            raise PlanError("--min-margin is about weak passes: also write --fail-on weak")
        gate = Gate(
            fail_on=FailOn(fail_on) if fail_on else None,
            min_margin=MIN_MARGIN if min_margin is None else _share(min_margin),
            must_fail=tuple(map(_must_fail, expected)),
        )
        function(*context, gate=gate, **others)

    return with_gate


def gated(gate: Gate, verdict: Verdict) -> ExitCode:
    """The exit code of a command; why it is not the verdict's own goes to stderr."""
    found = gate.judge(verdict)
    for reason in found.reasons:
        click.echo(f"gate: {reason}", err=True)
    return found.exit_code


def _must_fail(text: str) -> str:
    outcome, _, check = text.partition(":")
    if outcome != "fail":
        raise PlanError(f"--expect {text}: write fail:CHECK, as fail:rejoin")
    return check  # empty for a bare `fail`, which `Gate.refuse_unknown` refuses


def _share(text: str) -> float:
    try:
        found = share(text)
    except PlanError:
        found = -1.0
    if not 0 < found < 1:
        raise PlanError(f"--min-margin {text}: write a share between 0% and 100%, as 10%")
    return found
