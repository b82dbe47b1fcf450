"""`chaoslab list`: the runs on record, the newest first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from chaoslab.checks.base import Outcome
from chaoslab.cli import completing
from chaoslab.cli.commands.output import (
    examples,
    fitting,
    json_option,
    out_option,
    print_result,
    typed,
    typed_path,
)
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.record.run_directory import RunDirectory, list_runs, shown_ids
from chaoslab.run.records import RunState, run_json

_STYLES = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "magenta", "running": "cyan",
           "damaged": "yellow"}  # fmt: skip
_YES_NO = {True: "yes", False: "NO"}
_TITLES = ("id", "plan", "verdict", "went on", "came back", "started", "lasted", "seed")
_SPARE = ("came back", "went on", "lasted", "started", "seed")
_STATES = {state.value.replace(" ", "-").lower(): state.value for state in (*Outcome, *RunState)}
"""What --verdict takes, and the state it means."""


@click.command(
    name="list",
    epilog=examples(
        "chaoslab list --last 10",
        "chaoslab list --plan kill_half --verdict fail",
        "chaoslab list --verdict running --json",
    ),
)
@click.option("--plan", metavar="NAME", help="Only runs of this plan.",
              shell_complete=completing.plans_on_record)  # fmt: skip
@click.option(
    "--verdict",
    type=click.Choice(list(_STATES), case_sensitive=False),
    help="Only runs with this verdict, or in this state.",
)
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
@out_option
@json_option
def command(
    *, plan: str | None, verdict: str | None, last: int | None, out: Path, as_json: bool
) -> None:
    """List the recorded runs.

    Newest first. Every command takes the id, or its beginning, as RUN. A run without a verdict is
    `running`, or `not judged`: its harness died, or was killed. `damaged`: its run.json cannot be
    read; --json says why.
    """
    known = list_runs(out)
    state = _STATES[verdict] if verdict else None
    runs = list(islice(_chosen(known, plan, state), last))
    page: RenderableType = Text(_nothing(known, out), no_wrap=True, overflow="ignore")
    then = ("chaoslab run kill_half", "make one")
    if known:
        then = (f"chaoslab list --out {typed_path(out)}", "all of them")
    if runs:
        page = _table(runs)
        newest = typed(RunDirectory(path=Path(str(runs[0]["path"]))), out)
        then = (f"chaoslab show {newest}", "the newest of them")
    print_result(runs, page, as_json=as_json, then=then)


def _chosen(
    runs: Iterable[RunDirectory], plan: str | None, state: str | None
) -> Iterator[Mapping[str, Json]]:
    """Lazily: of a thousand runs, no more are read than are shown."""
    found = (run_json(run) for run in runs if plan in {None, run.plan_name})
    return (run for run in found if state in {None, run["state"]})


def _nothing(known: Sequence[RunDirectory], out: Path) -> str:
    if not known:
        return f"no runs under {out} yet"
    plans = ", ".join(sorted({run.plan_name for run in known}))
    return f"no such run among {plural(len(known), 'run')} under {out}, of the plans {plans}"


def _table(runs: Sequence[Mapping[str, Json]]) -> Table:
    ids = shown_ids(str(run["id"]) for run in runs)
    rows = [_row(run, ids[str(run["id"])]) for run in runs]
    return fitting(_TITLES, rows, spare=_SPARE)


def _row(run: Mapping[str, Json], shown_id: str) -> tuple[RenderableType, ...]:
    state, lasted_s = str(run["state"]), run["lasted_s"]
    return (
        shown_id,
        str(run["plan"]),
        Text(state, style=_STYLES.get(state, "dim")),
        _yes_no(run["training_continued"]),
        _came_back(run["learners_rejoined"]),
        _started(run["started"]),
        f"{lasted_s:.0f} s" if isinstance(lasted_s, float) else "-",
        "-" if run["seed"] is None else str(run["seed"]),
    )


def _started(stamp: Json) -> str:
    """In local time, to the minute; `-` for what is no time, or none that a calendar here has."""
    try:
        return f"{datetime.fromisoformat(str(stamp)).astimezone():%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"


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
