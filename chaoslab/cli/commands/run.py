"""`chaoslab run`: the whole journey, from a plan's name to an exit code."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from chaoslab.checks.base import Outcome
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    shown_path,
    warn,
)
from chaoslab.cli.commands.plan_options import plan_options
from chaoslab.cli.commands.repetition import Repeating, repeat_options
from chaoslab.cli.invocation import Invocation
from chaoslab.plan.model import Control
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.report.console import screen
from chaoslab.report.page import verdict_page
from chaoslab.report.view import ViewModel
from chaoslab.run.judged_run import Judged, carry_out


@click.command(
    name="run",
    epilog=examples(
        "chaoslab run kill_half",
        "chaoslab run my_plan.yaml --set training.learners=8 --seed 11",
        "chaoslab run kill_half --fleet docker",
        "chaoslab run kill_half --json --quiet | jq .training_continued",
        "chaoslab run kill_half --repeat 20 --tolerate 5%",
    ),
)
@plan_options
@click.option("--no-control", is_flag=True, help="Skip the fault-free twin; checks that compare "
              "with it are UNKNOWN.")  # fmt: skip
@repeat_options
@click.option("--quiet", is_flag=True, help="Print only the verdict, no progress.")
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    asked: Asked,
    no_control: bool,
    repeating: Repeating | None,
    quiet: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run a fault plan and judge the result.

    PLAN is a path or the name of an included plan. Progress is written to stderr, the verdict to
    stdout, the record below --out. Ctrl-C heals all faults, writes the record and exits with 130.

    Exit codes: 0 pass, 1 fail, 2 refused before anything started, 3 unknown, 4 the harness failed
    or left something behind, 130 interrupted. With --repeat: the worst of all runs, unless
    --tolerate allows it; a failed harness is never tolerated and ends the repetition.
    """
    if no_control:
        asked = replace(asked, settings=(*asked.settings, "control=none"))
    invocation = context.ensure_object(Invocation)

    def run_once() -> Judged:
        prepared = prepare(asked)
        invocation.secrets = prepared.text.secrets
        return _watched(prepared, out, invocation.remember, quiet=quiet)

    if repeating is not None:
        context.exit(repeating.carry_out(run_once, as_json=as_json))
    judged = run_once()
    path = shown_path(judged.directory.path)
    print_result(
        judged.verdict.to_json(),
        verdict_page(judged.verdict, judged.history, path),
        as_json=as_json,
        then=_next(judged, path),
    )
    if judged.error is not None:
        raise judged.error
    context.exit(judged.verdict.exit_code)


def _watched(
    prepared: Prepared, out: Path, remember: Callable[[Path], object], *, quiet: bool
) -> Judged:
    if quiet:
        return carry_out(prepared, out, remember=remember)
    for text in prepared.warnings:
        warn(text)
    plan = prepared.plan
    view = ViewModel(plan.training.stop, has_twin=plan.control is Control.TWIN)
    with screen(sys.stderr, view) as watching:
        return carry_out(prepared, out, [watching], remember=remember)


def _next(judged: Judged, path: Path) -> tuple[str, str]:
    if judged.verdict.residue:
        return f"chaoslab heal {path}", "undo what was left behind"
    if judged.verdict.outcome is Outcome.PASS:
        return f"chaoslab show {path}", "the whole story of this run"
    return f"chaoslab show {path}", "the timeline around what was found"
