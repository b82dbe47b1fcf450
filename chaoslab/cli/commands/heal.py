"""`chaoslab heal`: the undo of what a dead harness left, from the run directories.

With --all also of what no run directory names, where that needs no person's look.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from chaoslab.cli import completing
from chaoslab.cli.commands.output import advise, examples, json_option, out_option, print_json
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.record.run_directory import RunDirectory
from chaoslab.undo.actions import leftovers
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.janitor import find_runs, heal
from chaoslab.undo.leftovers import unnamed
from chaoslab.undo.log import is_owned, logged_runs, open_undos
from chaoslab.undo.verbs import Healed, Leftover

_RUNNING = (
    "still running, left alone: end it with Ctrl-C or `chaoslab halt`, and it heals by itself"
)


@click.command(
    name="heal",
    epilog=examples("chaoslab heal --dry-run", "chaoslab heal 3f9a1c", "chaoslab heal --all"),
)
@click.argument("run", default="latest", shell_complete=completing.runs)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="All runs below --out that have something to undo, and the keys that dead harnesses left.",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="List what would be undone; change "
              "nothing.")  # fmt: skip
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, run: str, is_all: bool, is_dry: bool, out: Path, as_json: bool
) -> None:
    """Undo what a killed harness left behind.

    RUN is a path, `latest` (the default), the name of a plan, or the beginning of an id. Safe to
    repeat. Left alone are runs that go on and, even for root, runs of other users: heal these as
    that user (`sudo -u USER chaoslab heal RUN`). Exit code 4 if something could not be undone.
    """
    paths = find_runs(out) if is_all else (RunDirectory.open(run, root=out).path,)
    running = [path for path in paths if is_in_progress(path)]
    for path in running:
        click.echo(f"{path}: {_RUNNING}", err=as_json)
    paths = tuple(path for path in paths if path not in running)
    removable = [one for one in unnamed(out) if one.remove] if is_all else []
    if is_dry:
        _preview(paths, removable, as_json=as_json, is_busy=bool(running))
        return
    healed = {str(path): _heal(path) for path in paths}
    healed |= {found.where: _remove(found) for found in removable}
    others = [path for path in logged_runs(out) if not is_owned(path)] if is_all else []
    if others:
        click.echo(
            f"left alone, of other users: {plural(len(others), 'run')}: {others[0]} …", err=True
        )
    if as_json:
        print_json(
            {
                where: {"actions": done.actions, "remaining": done.remaining}
                for where, done in healed.items()
            }
        )
    else:
        _print(healed, has_running=bool(running))
        advise("chaoslab doctor", "what else this machine has left over")
    remains = any(done.remaining for done in healed.values())
    context.exit(ExitCode.BROKEN if remains else ExitCode.PASS)


def _heal(path: Path) -> Healed:
    """Heal one run; one whose undo log cannot be read remains, and the others are still healed."""
    try:
        return heal(path)
    except FleetError as error:
        return Healed(remaining=(str(error),))


def _remove(found: Leftover) -> Healed:
    try:
        return Healed(actions=(found.remove(),) if found.remove else ())
    except FleetError as error:
        return Healed(remaining=(str(error),))


def _preview(
    paths: Sequence[Path], removable: Sequence[Leftover], *, as_json: bool, is_busy: bool
) -> None:
    """Open undo entries of each run with what is still there; why, if a log cannot be read."""
    found: dict[str, list[Json]] = {}
    told: list[str] = []
    for path in paths:
        try:
            for one in open_undos(path):
                there = leftovers(one)
                found.setdefault(str(path), []).append(
                    {"undo": one.number, "do": one.do, "there": list(there)}
                )
                left = "; ".join(there) or "nothing is left"
                told.append(f"{path}: would undo {one.do}: {left}")
        except FleetError as error:
            found[str(path)] = [{"undo": None, "do": str(error), "there": []}]
            told.append(f"{path}: cannot be read: {error}")
    for left_over in removable:
        does = f"by {left_over.remedy}"
        found[left_over.where] = [{"undo": None, "do": does, "there": [left_over.what]}]
        told.append(f"{left_over.where}: would undo {does}: {left_over.what}")
    if as_json:
        print_json(found)
        return
    for sentence in told:
        click.echo(sentence)
    if not told and not is_busy:
        click.echo("nothing to undo")


def _print(healed: dict[str, Healed], *, has_running: bool) -> None:
    for where, done in healed.items():
        for sentence in done.actions:
            click.echo(f"{where}: {sentence}")
        for sentence in done.remaining:
            click.echo(f"{where}: NOT undone: {sentence}")
    if not has_running and not any(done.actions or done.remaining for done in healed.values()):
        click.echo("nothing to undo")
