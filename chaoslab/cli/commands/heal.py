"""`chaoslab heal`: the undo of what a dead harness left, from the run directories alone."""

from pathlib import Path

import click

from chaoslab.cli.commands.output import advise, examples, json_option, out_option, print_json
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.janitor import find_runs, heal
from chaoslab.undo.log import is_owned, logged_runs
from chaoslab.undo.verbs import Healed


@click.command(
    name="heal", epilog=examples("chaoslab heal", "chaoslab heal 3f9a1c", "chaoslab heal --all")
)
@click.argument("run", default="latest")
@click.option(
    "--all", "is_all", is_flag=True, help="All runs below --out that have something to undo."
)
@out_option
@json_option
@click.pass_context
def command(context: click.Context, *, run: str, is_all: bool, out: Path, as_json: bool) -> None:
    """Undo what a killed harness left behind.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. Safe to
    repeat. Skipped are active runs and, even for root, runs of other users: heal these as that user
    (`sudo -u USER chaoslab heal RUN`). Exit code 4 if something could not be undone.
    """
    paths = find_runs(out) if is_all else (RunDirectory.open(run, root=out).path,)
    healed = {path: _heal(path) for path in paths}
    others = [path for path in logged_runs(out) if not is_owned(path)] if is_all else []
    if others:
        click.echo(f"{len(others)} runs of other users are left alone: {others[0]} …", err=True)
    if as_json:
        print_json(
            {
                str(path): {"actions": done.actions, "remaining": done.remaining}
                for path, done in healed.items()
            }
        )
    else:
        _print(healed)
        advise("chaoslab doctor", "what else this machine has left over")
    remains = any(done.remaining for done in healed.values())
    context.exit(ExitCode.BROKEN if remains else ExitCode.PASS)


def _heal(path: Path) -> Healed:
    """An undo log that cannot be read remains; the others are healed all the same."""
    try:
        return heal(path)
    except FleetError as error:
        return Healed(remaining=(str(error),))


def _print(healed: dict[Path, Healed]) -> None:
    for path, done in healed.items():
        for sentence in done.actions:
            click.echo(f"{path}: {sentence}")
        for sentence in done.remaining:
            click.echo(f"{path}: NOT undone: {sentence}")
    if not any(done.actions or done.remaining for done in healed.values()):
        click.echo("nothing was owed")
