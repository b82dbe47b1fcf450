"""`chaoslab list`: the runs on record, the newest first."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich import box
from rich.table import Table
from rich.text import Text

from chaoslab.cli.commands.output import (
    advise,
    examples,
    json_option,
    out_option,
    print_json,
    print_page,
    shown_path,
)
from chaoslab.core.events import Json
from chaoslab.record.run_directory import list_runs
from chaoslab.run.records import run_json

_STYLES = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "magenta"}
_YES_NO = {True: "yes", False: "NO"}


@click.command(name="list", epilog=examples("chaoslab list", "chaoslab list --json --out runs"))
@out_option
@json_option
def command(*, out: Path, as_json: bool) -> None:
    """List the recorded runs.

    Newest first. A run without a verdict is still running, or was never judged.
    """
    runs = [run_json(run) for run in list_runs(out)]
    if as_json:
        print_json(runs)
        return
    if not runs:
        click.echo(f"no runs under {out} yet")
        advise("chaoslab run kill_half", "make one")
        return
    print_page(_table(runs))
    advise(f"chaoslab show {shown_path(Path(str(runs[0]['path'])))}", "the newest of them")


def _table(runs: Sequence[Mapping[str, Json]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("plan", "id", "verdict", "went on", "came back", "seed", "lasted"):
        table.add_column(title, no_wrap=True)
    for run in runs:
        verdict = str(run["verdict"] or "not judged")
        lasted_s = run["lasted_s"]
        table.add_row(
            str(run["plan"]),
            str(run["id"]),
            Text(verdict, style=_STYLES.get(verdict, "dim")),
            _yes_no(run["training_continued"]),
            _came_back(run["learners_rejoined"]),
            str(run["seed"]),
            f"{lasted_s:.0f} s" if isinstance(lasted_s, float) else "-",
        )
    return table


def _yes_no(value: Json) -> str:
    return _YES_NO[value] if isinstance(value, bool) else "-"


def _came_back(learners: Json) -> str:
    """How many of those that were taken away and asked to return."""
    if not isinstance(learners, Mapping) or not learners:
        return "-"
    asked = [
        one
        for one in learners.values()
        if isinstance(one, Mapping) and one.get("was_asked") is not False
    ]
    back = [one.get("rejoined") for one in asked]
    unknown = f", {back.count(None)} unknown" if None in back else ""
    return f"{back.count(True)} of {len(asked)}{unknown}"
