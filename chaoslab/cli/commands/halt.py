"""`chaoslab halt`: the end of every run on this machine, healed."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from chaoslab.cli import completing
from chaoslab.cli.commands.output import advise, examples, json_option, out_option, print_json
from chaoslab.core.errors import ExitCode
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.halt import Halted, find_runs, halt
from chaoslab.undo.harness import harness_of
from chaoslab.undo.processes import strays


@click.command(
    name="halt",
    epilog=examples("chaoslab halt --dry-run", "chaoslab halt", "chaoslab halt kill_half"),
)
@click.argument("run", required=False, shell_complete=completing.runs)
@click.option("--within", "within_s", type=click.FloatRange(min=0), default=60.0, show_default=True,
              help="Seconds to wait for a run to heal and end before it is killed.")  # fmt: skip
@click.option("--dry-run", "is_dry", is_flag=True, help="List the runs; change nothing.")
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    run: str | None,
    within_s: float,
    is_dry: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Stop and heal every run on this machine.

    Every run of this user is asked to end as by Ctrl-C, wherever its record is. A run that has not
    ended within --within is killed and undone. What killed harnesses left below --out is undone
    too. RUN (a path, `latest`, the name of a plan, or the beginning of an id) selects one run.
    Processes of other users, and processes that reuse a pid, are not touched. Exit code 4 if
    something is left.
    """
    runs = find_runs(out) if run is None else (RunDirectory.open(run, root=out).path,)
    if is_dry:
        _preview(runs, as_json=as_json)
        return
    halted = halt(runs, within_s=within_s, tell=lambda words: click.echo(words, err=True))
    lost = [] if run is not None else [f"{one.what}; {one.remedy}" for one in strays()]
    if as_json:
        runs_json = [{**asdict(one), "run": str(one.run)} for one in halted]
        print_json({"runs": runs_json, "remaining": lost})
    else:
        _print(halted, lost)
        advise("chaoslab doctor", "what this machine has left over")
    is_left = bool(lost) or any(one.remaining for one in halted)
    context.exit(ExitCode.BROKEN if is_left else ExitCode.PASS)


def _preview(runs: Sequence[Path], *, as_json: bool) -> None:
    found = {str(run): harness_of(run) for run in runs}
    if as_json:
        print_json(
            {
                "runs": [
                    {"run": run, "pid": process.pid if process else None}
                    for run, process in found.items()
                ]
            }
        )
        return
    for run, process in found.items():
        does = (
            f"process {process.pid} would be asked to end"
            if process
            else "what it left would be undone"
        )
        click.echo(f"{run}: {does}")
    if not found:
        click.echo("no run is going on, and there is nothing to undo")


def _print(halted: Sequence[Halted], lost: Sequence[str]) -> None:
    for one in halted:
        click.echo(f"{one.run}: {one.how}")
        for sentence in one.actions:
            click.echo(f"  {sentence}")
        for sentence in one.remaining:
            click.echo(f"  NOT undone: {sentence}")
    for sentence in lost:
        click.echo(f"NOT undone: {sentence}")
    if not halted:
        click.echo("no run was going on, and there was nothing to undo")
