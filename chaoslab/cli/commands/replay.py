"""`chaoslab replay`: the schedule of a record again, or the least of it that still fails."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Group
from rich.text import Text

from chaoslab.cli import completing
from chaoslab.cli.commands.minimisation import Minimising, minimise_options
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    typed,
)
from chaoslab.cli.commands.run import run_watched
from chaoslab.cli.invocation import Invocation
from chaoslab.core.errors import ExitCode
from chaoslab.core.terminal import shown_path
from chaoslab.record.run_directory import RunDirectory
from chaoslab.replay.again import REPLAY_OF, prepare_again
from chaoslab.report.files import read_verdict
from chaoslab.report.page import verdict_page


@click.command(
    name="replay",
    epilog=examples(
        "chaoslab replay latest",
        "chaoslab replay 3f9a1c --minimise",
        "chaoslab replay 3f9a1c --minimise --budget 1h --max-runs 40 --check rejoin",
    ),
)
@click.argument("run", shell_complete=completing.runs)
@minimise_options
@click.option("--no-twin", is_flag=True, help="Skip the fault-free twin; checks that compare "
              "with it are not judged.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print only the result, no progress.")
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    run: str,
    minimising: Minimising | None,
    no_twin: bool,
    quiet: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run the schedule of a record again, or find the least that fails.

    The same plan, faults, targets, triggers and durations. RUN is a path, `latest`, the name of a
    plan, or the beginning of an id. The exit code is that of the new run. Code and machine are
    those of now: `chaoslab compare` tells what differs.

    --minimise is for a run that FAILs. It searches by delta debugging on real runs for a smaller
    schedule that fails in the same check with the same code, and writes it as a plan. Exit codes
    then: 0 a failing schedule was found, 3 the whole schedule did not fail again, 4 the harness
    failed, 130 interrupted; what was found until then is written.
    """
    directory = RunDirectory.open(run, root=out)
    settings = ("twin=false",) if no_twin else ()
    invocation = context.ensure_object(Invocation)
    if minimising is not None:
        code = minimising.carry_out(
            directory, out, settings, invocation, quiet=quiet, as_json=as_json
        )
    else:
        code = _again(directory, out, settings, invocation, quiet=quiet, as_json=as_json)
    context.exit(code)


def _again(
    directory: RunDirectory, out: Path, settings: Sequence[str], invocation: Invocation,
    *, quiet: bool, as_json: bool,
) -> ExitCode:  # fmt: skip
    prepared = prepare_again(directory, settings=settings)
    judged = run_watched(
        prepared,
        invocation=invocation,
        out=out,
        quiet=quiet,
        made=lambda path: RunDirectory(path=path).note(**{REPLAY_OF: directory.id}),
    )
    path, before = shown_path(judged.directory.path), read_verdict(directory.path)
    old, new = typed(directory, out), typed(judged.directory, out)
    was = "was never judged" if before is None else f"was {before.outcome}"
    page = Group(
        verdict_page(judged.verdict, judged.history, path),
        Text(f"replay of {old}, a run of {directory.plan_name} which {was}"),
    )
    print_result(
        {**judged.verdict.to_json(), REPLAY_OF: directory.id},
        page,
        as_json=as_json,
        then=(f"chaoslab compare {old} {new}", "both runs side by side"),
    )
    if judged.error is not None:
        raise judged.error
    return judged.verdict.exit_code
