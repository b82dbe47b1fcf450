"""`chaoslab run`: the whole journey, from a plan's name to an exit code."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from chaoslab.checks.base import Outcome
from chaoslab.checks.gate import Gate
from chaoslab.cli import completing
from chaoslab.cli.commands.bisection import bisect_commits
from chaoslab.cli.commands.listener_options import NOBODY, Listeners, Listening, listener_options
from chaoslab.cli.commands.options import gate_options, gated, plan_options, refuse_unknown
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    typed,
    warn,
)
from chaoslab.cli.commands.repetition import Repeating, repeat_options
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import PlanError
from chaoslab.core.terminal import shown_path
from chaoslab.prepare.plans import Asked, Prepared, prepare
from chaoslab.record.journal import Observer
from chaoslab.report.console import screen
from chaoslab.report.page import verdict_page
from chaoslab.report.story import RunStory
from chaoslab.run.judged_run import JudgedRun, run_and_judge
from chaoslab.run.operators import Inbox


@click.command(
    name="run",
    epilog=examples(
        "chaoslab run kill_half",
        "chaoslab run my_plan.yaml --set training.learners=8 --seed 11",
        "chaoslab run kill_half --fleet docker",
        "chaoslab run kill_half --fleet sim",
        "chaoslab run kill_half --json --quiet | jq .training_continued",
        "chaoslab run kill_half --repeat 20 --tolerate 5%",
        "chaoslab run kill_half --fail-on low-margin --min-margin 20%",
        "chaoslab run my_broken_syncer.yaml --expect fail:rejoin",
        "chaoslab run plans/kill_half.yaml --bisect v1.2 HEAD",
        "chaoslab run mtbf_soak --metrics :9464 --notify https://ci.example.com/hook",
    ),
)
@plan_options
@click.option("--no-twin", is_flag=True, help="Skip the fault-free twin; checks that compare "
              "with it are not judged.")  # fmt: skip
@gate_options
@repeat_options
@click.option("--bisect", nargs=2, metavar="GOOD BAD", shell_complete=completing.commits,
              help="Find the first commit of your repository, after GOOD and at most at BAD, with "
              "which the plan fails.")  # fmt: skip
@listener_options
@click.option("--quiet", is_flag=True, help="Print only the verdict, no progress.")
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each group of options
    context: click.Context,
    *,
    asked: Asked,
    no_twin: bool,
    gate: Gate,
    repeating: Repeating | None,
    bisect: tuple[str, str] | None,
    listening: Listening,
    quiet: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run a fault plan and judge the result.

    PLAN is a path or the name of an included plan. Progress is written to stderr, the verdict to
    stdout, the record below --out. Ctrl-C heals all faults, writes the record and exits with 130;
    another one leaves what does not answer to the janitor. A reader of stdout or stderr that goes
    away (`| head -1`) changes nothing.

    --notify, --metrics and --otlp tell others; they cannot delay or fail the run.

    --bisect checks out each commit into a work tree of its own, apart from yours, and runs the plan
    there: a plan file, a task and programs that lie in the repository are the commit's; the files
    of --inventory and --costs are yours. GOOD must pass and BAD must fail, which is tried first. A
    commit that is UNKNOWN, or cannot run the plan, is skipped; with --repeat N one that does not
    fail is run N times before it counts as good. Call it in your repository.

    Exit codes: 0 pass, 1 fail, 2 refused before anything started, 3 unknown, 4 the harness failed
    or left something behind, 130 interrupted. With --repeat: the worst of all runs, unless
    --tolerate allows it; a failed harness is never tolerated and ends the repetition. --fail-on and
    --expect change which verdict is accepted, never the verdict. With --bisect: 0 the first bad
    commit was found, 3 it was not.
    """
    if no_twin:
        asked = replace(asked, settings=(*asked.settings, "twin=false"))
    if bisect:
        if gate != Gate() or listening != Listening() or (repeating and not repeating.is_plain):
            raise PlanError(
                "--bisect goes by the verdict of each commit: leave out --fail-on, --expect, "
                "--until-failure, --tolerate, --notify, --metrics and --otlp"
            )
        tries = repeating.times if repeating else 1
        context.exit(bisect_commits(asked, bisect, out, tries=tries, quiet=quiet, as_json=as_json))
    invocation = context.ensure_object(Invocation)
    with listening.begin() as listeners:
        run = partial(run_watched, invocation=invocation, out=out, quiet=quiet, listeners=listeners)
        if repeating is not None:
            repeating = replace(repeating, gate=gate)
            context.exit(
                repeating.carry_out(lambda: run(prepare_gate(asked, gate)), as_json=as_json)
            )
        finish(context, run(prepare_gate(asked, gate)), gate, out, as_json=as_json)


def prepare_gate(asked: Asked, gate: Gate) -> Prepared:
    """The plan, made ready; PlanError, too, if `gate` names no check of it."""
    prepared = prepare(asked)
    refuse_unknown(gate, prepared.plan)
    return prepared


def run_watched(
    prepared: Prepared,
    *,
    invocation: Invocation,
    out: Path,
    quiet: bool,
    listeners: Listeners = NOBODY,
    made: Callable[[Path], object] = lambda _: None,
) -> JudgedRun:
    """Run it and judge it while listeners are told; with warnings and progress on stderr, unless
    it is to be quiet. `made` is told the run's directory once it is there.
    """
    run = partial(run_told, prepared, out, invocation=invocation, listeners=listeners, made=made)
    if quiet:
        return run(())
    for text in prepared.warnings:
        warn(text)
    with screen(sys.stderr, RunStory(prepared.plan.training.stop)) as watching:
        return run([watching], await_twin=watching.await_twin)


def run_told(
    prepared: Prepared,
    out: Path,
    observers: Sequence[Observer],
    *,
    invocation: Invocation,
    listeners: Listeners,
    made: Callable[[Path], object],
    await_twin: Callable[[Sequence[str]], object] = lambda _: None,
    inbox: Inbox | None = None,
) -> JudgedRun:
    """Run it and judge it while observers and listeners are told; see `run_and_judge`."""
    invocation.secrets = prepared.text.secrets

    def remember(directory: Path) -> None:
        invocation.remember(directory)
        listeners.made(directory)
        made(directory)

    judged = run_and_judge(
        prepared, out, [*observers, *listeners.observers], remember=remember,
        await_twin=await_twin, inbox=inbox,
    )  # fmt: skip
    listeners.judged(judged)
    return judged


def finish(
    context: click.Context, judged: JudgedRun, gate: Gate, out: Path, *, as_json: bool
) -> None:
    """Print the verdict of a run, and leave with the exit code of the gate."""
    print_result(
        judged.verdict.to_json(),
        verdict_page(judged.verdict, judged.history, shown_path(judged.directory.path)),
        as_json=as_json,
        then=_next(judged, typed(judged.directory, out)),
    )
    if judged.error is not None:
        raise judged.error
    context.exit(gated(gate, judged.verdict))


def _next(judged: JudgedRun, run: str) -> tuple[str, str]:
    if judged.verdict.residue:
        return f"chaoslab heal {run}", "undo what was left behind"
    if judged.verdict.outcome is Outcome.PASS:
        return f"chaoslab show {run}", "the whole story of this run"
    return f"chaoslab show {run}", "what the findings rest on, and what to try"
