"""`chaoslab doctor`: what this machine can do, and what earlier runs left on it."""

from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    out_option,
    print_json,
    print_page,
)
from chaoslab.cli.doctor_lines import Diagnosis, examine, repair
from chaoslab.core.errors import ExitCode
from chaoslab.undo.verbs import State

_STYLES = {State.OK: "green", State.LIMITED: "yellow", State.MISSING: "dim"}


@click.command(
    name="doctor",
    epilog=examples("chaoslab doctor", "chaoslab doctor --fix", "chaoslab doctor --json"),
)
@click.option("--fix", "is_fixing", is_flag=True, help="Install a missing Toxiproxy server, built "
              "with Go or downloaded.")  # fmt: skip
@out_option
@json_option
@click.pass_context
def command(context: click.Context, *, is_fixing: bool, out: Path, as_json: bool) -> None:
    """Show what this machine supports and what earlier runs left.

    Changes nothing without --fix. A missing ability matters only to plans that need it, which
    `chaoslab plan` shows. Exit code 4 if an earlier run left something behind, or if --fix failed.
    """
    found = examine(out)
    if is_fixing:
        for done in repair(found):
            click.echo(done, err=True)
        found = examine(out)
    if as_json:
        print_json(
            {
                "abilities": [{**asdict(one), "state": one.state.value} for one in found.abilities],
                "residue": [asdict(one) for one in found.residue],
            }
        )
    else:
        print_page(_page(found))
        if found.residue:
            advise("chaoslab heal --all", "undo what dead runs left")
        else:
            advise("chaoslab run kill_half", "break something")
    context.exit(ExitCode.BROKEN if found.residue else ExitCode.PASS)


def _page(found: Diagnosis) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("ability", "state", "detail", "what to do"):
        table.add_column(title, no_wrap=title in {"ability", "state"})
    for one in found.abilities:
        state = Text(one.state.value, style=_STYLES[one.state])
        table.add_row(one.name, state, Text(one.detail), Text(one.remedy))
    left = [
        Text(f"left over: {one.what}, {one.where}; {one.remedy}", style="bold red")
        for one in found.residue
    ]
    return Group(table, *(left or [Text("nothing is left over from earlier runs")]))
