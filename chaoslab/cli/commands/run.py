"""`chaoslab run`: the whole journey, from a plan's name to an exit code."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from chaoslab.checks.base import Outcome
from chaoslab.checks.gate import Gate
from chaoslab.cli.commands.gate_options import gate_options, gated
from chaoslab.cli.commands.listener_options import Listening, listener_options
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    shown_path,
    typed,
    warn,
)
from chaoslab.cli.commands.plan_options import plan_options
from chaoslab.cli.commands.repetition import Repeating, repeat_options
from chaoslab.cli.commands.telemetry_options import otlp_option, send_otlp
from chaoslab.cli.invocation import Invocation
from chaoslab.plan.model import Control
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.journal import Observer
from chaoslab.report.console import screen
from chaoslab.report.page import verdict_page
from chaoslab.report.story import RunStory
from chaoslab.run.judged_run import Judged, carry_out


@click.command(
    name="run",
    epilog=examples(
        "chaoslab run kill_half",
        "chaoslab run my_plan.yaml --set training.learners=8 --seed 11",
        "chaoslab run kill_half --fleet docker",
        "chaoslab run kill_half --fleet sim",
        "chaoslab run kill_half --json --quiet | jq .training_continued",
        "chaoslab run kill_half --repeat 20 --tolerate 5%",
        "chaoslab run kill_half --fail-on weak --min-margin 20%",
        "chaoslab run my_broken_syncer.yaml --expect fail:rejoin",
        "chaoslab run mtbf_soak --metrics :9464 --notify https://ci.example.com/hook",
    ),
)
@plan_options
@click.option("--no-control", is_flag=True, help="Skip the fault-free twin; checks that compare "
              "with it are not judged.")  # fmt: skip
@gate_options
@repeat_options
@otlp_option
@listener_options
@click.option("--quiet", is_flag=True, help="Print only the verdict, no progress.")
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each group of options
    context: click.Context,
    *,
    asked: Asked,
    no_control: bool,
    repeating: Repeating | None,
    otlp: str | None,
    gate: Gate,
    listening: Listening,
    quiet: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run a fault plan and judge the result.

    PLAN is a path or the name of an included plan. Progress is written to stderr, the verdict to
    stdout, the record below --out. Ctrl-C heals all faults, writes the record and exits with 130. A
    reader of stdout or stderr that goes away (`| head -1`) changes nothing.

    --notify and --metrics tell others while it runs; they cannot delay or fail the run.

    Exit codes: 0 pass, 1 fail, 2 refused before anything started, 3 unknown, 4 the harness failed
    or left something behind, 130 interrupted. With --repeat: the worst of all runs, unless
    --tolerate allows it; a failed harness is never tolerated and ends the repetition. --fail-on and
    --expect change which verdict is accepted, never the verdict.
    """
    if no_control:
        asked = replace(asked, settings=(*asked.settings, "control=none"))
    invocation = context.ensure_object(Invocation)

    def run_once() -> Judged:
        prepared = prepare(asked)
        invocation.secrets = prepared.text.secrets
        gate.refuse_unknown([spec.check for spec in prepared.plan.expect])
        judged = carry_out_watched(prepared, out, made, quiet=quiet, observers=listeners.observers)
        listeners.judged(judged)
        return judged

    def send(judged: Judged) -> Judged:
        send_otlp(otlp, judged.directory, judged.history, judged.verdict)
        return judged

    def made(directory: Path) -> None:
        invocation.remember(directory)
        listeners.made(directory)

    with listening.begin() as listeners:
        if repeating is not None:
            context.exit(repeating.carry_out(lambda: send(run_once()), as_json=as_json))
        judged = run_once()
        path = shown_path(judged.directory.path)
        print_result(
            judged.verdict.to_json(),
            verdict_page(judged.verdict, judged.history, path),
            as_json=as_json,
            then=_next(judged, typed(judged.directory, out)),
        )
        send(judged)
    if judged.error is not None:
        raise judged.error
    context.exit(gated(gate, judged.verdict))


def carry_out_watched(
    prepared: Prepared,
    out: Path,
    remember: Callable[[Path], object],
    *,
    quiet: bool,
    observers: Sequence[Observer] = (),
) -> Judged:
    """Carry it out, with warnings and progress on stderr unless it is to be quiet."""
    if quiet:
        return carry_out(prepared, out, observers, remember=remember)
    for text in prepared.warnings:
        warn(text)
    plan = prepared.plan
    is_next = plan.control is Control.TWIN and not prepared.fleet_setup.is_simulated
    view = RunStory(plan.training.stop, has_twin=is_next)
    with screen(sys.stderr, view) as watching:
        return carry_out(prepared, out, [watching, *observers], remember=remember)


def _next(judged: Judged, run: str) -> tuple[str, str]:
    if judged.verdict.residue:
        return f"chaoslab heal {run}", "undo what was left behind"
    if judged.verdict.outcome is Outcome.PASS:
        return f"chaoslab show {run}", "the whole story of this run"
    return f"chaoslab show {run}", "what the findings rest on, and what to try"
