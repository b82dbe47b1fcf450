"""Options that several commands have: of a plan, of the gate, and quantities such as `10%`.

PLAN --set --seed … ─► Asked ─► the command's one argument `asked`        (`bundled`)
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import click

from chaoslab.checks.gate import MIN_MARGIN, FailOn, Gate
from chaoslab.checks.verdict import Verdict
from chaoslab.cli import completing
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.units import COUNT, DURATION, SHARE, SIZE, Quantity, share
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.kinds import kinds
from chaoslab.prepare.lacking import never_judged
from chaoslab.prepare.plans import Asked

_T = TypeVar("_T")
_AGES = ((86400, "d"), (3600, "h"), (60, "min"))
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def bundled(name: str, make: Callable[..., object], *options: _Decorator) -> _Decorator:
    """Options that a command gets as one argument: what `make` makes of their values."""
    own = signature(make).parameters

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_bundle(*context: click.Context, **given: object) -> None:
            values = {key: given.pop(key) for key in own}
            function(*context, **{name: make(**values)}, **given)

        whole: Callable[..., Any] = with_bundle
        for option in reversed(options):
            whole = option(whole)
        return whole

    return decorate


# ---------------------------------------------------------------- a plan

set_option = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Override a key of the plan; repeatable.",
)  # fmt: skip
seed_option = click.option("--seed", type=int, help="Another schedule: other targets, other times.")
plan_options = bundled(
    "asked",
    Asked,
    click.argument("plan", shell_complete=completing.plans),
    set_option,
    seed_option,
    click.option(
        "--fleet",
        metavar="KIND",
        help=f"Run on this fleet: {', '.join(kinds().fleets)}.",
        shell_complete=completing.fleets,
    ),
    click.option(
        "--inventory",
        type=click.Path(),
        metavar="FILE",
        help="The hosts of a fleet that has some; as --set fleet.inventory=FILE.",
    ),
    click.option(
        "--costs",
        type=click.Path(),
        metavar="FILE",
        help="What work takes in a simulation (--fleet sim); as --set fleet.costs=FILE.",
    ),
)


# ---------------------------------------------------------------- a training that runs already

service_option = click.option(
    "--service", "services", multiple=True, metavar="NAME",
    help="A training of your own: the containers of this service of the project; repeatable.",
)  # fmt: skip
selector_option = click.option(
    "--selector", default="", metavar="LABELS",
    help="A training of your own: the pods with these labels, such as app=trainer.",
)  # fmt: skip
pattern_option = click.option(
    "--pattern", default="", metavar="REGEX",
    help="A training of your own on hosts: what the command lines of its workers match.",
)  # fmt: skip


# ---------------------------------------------------------------- which verdict exits with 0


def _gate(fail_on: str | None, min_margin: str | None, expected: tuple[str, ...]) -> Gate:
    if expected and fail_on:
        raise PlanError("--expect accepts a FAIL alone: leave out --fail-on")
    if min_margin is not None and fail_on != FailOn.LOW_MARGIN:
        raise PlanError(
            "--min-margin is about passes near their bound: also write --fail-on low-margin"
        )
    return Gate(
        fail_on=FailOn(fail_on) if fail_on else None,
        min_margin=MIN_MARGIN if min_margin is None else _least_margin(min_margin),
        must_fail=tuple(map(_must_fail, expected)),
    )


def _must_fail(text: str) -> str:
    outcome, _, check = text.partition(":")
    if outcome != "fail":
        raise PlanError(f"--expect {text}: write fail:CHECK, as fail:rejoin")
    return check  # empty for a bare `fail`, which `Gate.refuse_unknown` refuses


def _least_margin(text: str) -> float:
    found = share_or_none(text)
    if not found:
        raise PlanError(f"--min-margin {text}: write a share between 0% and 100%, as 10%")
    return found


def share_or_none(text: str) -> float | None:
    """A share from 0% to below 100%; None for anything else."""
    try:
        found = share(text)
    except PlanError:
        return None
    return found if 0 <= found < 1 else None


gate_options = bundled(
    "gate",
    _gate,
    click.option(
        "--fail-on",
        type=click.Choice([one.value for one in FailOn]),
        help="Exit with 1 also for UNKNOWN; with `low-margin` also for a PASS near its bound.",
    ),
    click.option(
        "--min-margin",
        metavar="P%",
        help="With --fail-on low-margin: the least margin of each finding.  "
        f"[default: {MIN_MARGIN:.0%}]",
    ),
    click.option(
        "--expect",
        "expected",
        multiple=True,
        metavar="fail:CHECK",
        help="Exit with 0 only if this check is FAIL, as of a run that is broken on purpose; "
        "repeatable: all of them.",
    ),
)


def refuse_unknown(gate: Gate, plan: FaultPlan) -> None:
    """PlanError if --expect names what can never fail in a run of this plan."""
    left_out = never_judged(plan, gate.must_fail)
    gate.refuse_unknown([spec.check for spec in plan.expect], left_out=left_out)


def gated(gate: Gate, verdict: Verdict) -> ExitCode:
    """The exit code of a command; why it is not the verdict's own goes to stderr."""
    found = gate.judge(verdict)
    for reason in found.reasons:
        click.echo(f"gate: {reason}", err=True)
    return found.exit_code


# ---------------------------------------------------------------- quantities


def _read_by(
    quantity: Quantity[_T],
) -> Callable[[click.Context, click.Parameter, str | None], _T | None]:
    """A callback of an option: its text as a number in base units, a usage error otherwise."""

    def read(_context: click.Context, _option: click.Parameter, text: str | None) -> _T | None:
        try:
            return None if text is None else quantity.parse(text)
        except PlanError as error:
            raise click.BadParameter(error.message) from error

    return read


count = _read_by(COUNT)
percentage = _read_by(SHARE)
duration = _read_by(DURATION)
size = _read_by(SIZE)


def age(age_s: float | None) -> str:
    """Age in the largest unit that fits: `3 h`; `-` if it is not known."""
    if age_s is None:
        return "-"
    return next((f"{age_s // s:.0f} {unit}" for s, unit in _AGES if age_s >= s), "now")
