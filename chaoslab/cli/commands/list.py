"""`chaoslab list`: the runs on record, the newest first."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    shown_path,
    table,
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
    page: RenderableType = Text(f"no runs under {out} yet", no_wrap=True, overflow="ignore")
    then = ("chaoslab run kill_half", "make one")
    if runs:
        page = _table(runs)
        newest = shown_path(Path(str(runs[0]["path"])))
        then = (f"chaoslab show {newest}", "the newest of them")
    print_result(runs, page, as_json=as_json, then=then)


def _table(runs: Sequence[Mapping[str, Json]]) -> Table:
    listed = table("plan", "id", "verdict", "went on", "came back", "seed", "lasted")
    for run in runs:
        verdict = str(run["verdict"] or "not judged")
        lasted_s = run["lasted_s"]
        listed.add_row(
            str(run["plan"]),
            str(run["id"]),
            Text(verdict, style=_STYLES.get(verdict, "dim")),
            _yes_no(run["training_continued"]),
            _came_back(run["learners_rejoined"]),
            str(run["seed"]),
            f"{lasted_s:.0f} s" if isinstance(lasted_s, float) else "-",
        )
    return listed


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
