"""`chaoslab list`: the runs on record, the newest first, or what they say of each plan."""

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
from chaoslab.cli.commands.options import duration
from chaoslab.cli.commands.output import (
    examples,
    fitting,
    json_option,
    out_option,
    print_result,
    typed,
    typed_path,
)
from chaoslab.cli.commands.status import show_status
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.record.run_directory import RunDirectory, list_runs, shown_ids
from chaoslab.run.records import RunState, run_json

_STYLES = {"PASS": "green", "FAIL": "bold red", "UNKNOWN": "magenta", "running": "cyan",
           "damaged": "yellow"}  # fmt: skip
_YES_NO = {True: "yes", False: "NO"}
_TITLES = ("id", "plan", "verdict", "went on", "back", "started", "lasted", "seed")
_SPARE = ("back", "went on", "seed", "lasted", "started")
_STATES = {state.value.replace(" ", "-").lower(): state.value for state in (*Outcome, *RunState)}
"""Values of --verdict, and the state that each means."""


@click.command(
    name="list",
    epilog=examples(
        "chaoslab list --last 10",
        "chaoslab list --plan kill_half --verdict fail",
        "chaoslab list --verdict running --json",
        "chaoslab list --status --max-age 7d",
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
@click.option("--status", "is_status", is_flag=True, help="The last verdict of each plan, and "
              "whether it still holds.")  # fmt: skip
@click.option("--max-age", callback=duration, metavar="TIME", help="With --status: a pass that is "
              "older is no pass, for example 12h or 7d.")  # fmt: skip
@click.option("--any-code", is_flag=True, help="With --status: let a pass of other code count, "
              "too.")  # fmt: skip
@out_option
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each option
    context: click.Context, *, plan: str | None, verdict: str | None, last: int | None,
    is_status: bool, max_age: float | None, any_code: bool, out: Path, as_json: bool,
) -> None:  # fmt: skip
    """List the recorded runs, or the last verdict of each plan.

    Newest first. Every command takes the id, or its beginning, as RUN. A run without a verdict is
    `running`, or `not judged`: its harness died, or was killed. `damaged`: its run.json cannot be
    read; --json says why.

    --status has a line for each plan. Runs of a plan on another fleet, or with other settings, are
    a line of their own; those of an older plan file are left out. The newest run that is over
    counts: without a verdict it is no pass, whatever an earlier run was. A pass counts while the
    code is the same: the sources of chaoslab, of the plan's task and of its programs, as found from
    this folder, and, if it was not simulated, the versions of the libraries that compute; of a
    simulation its costs. A pass of other code, or one older than --max-age, is shown as such and is
    no pass, nor is a `damaged` record.

    Exit codes: 0; with --status 0 if every plan that has runs passes, 1 if one fails, 3 if one is
    not known to pass.
    """
    if is_status:
        if verdict or last:
            raise PlanError(
                "--verdict and --last choose runs, --status shows plans: leave them out"
            )
        context.exit(show_status(out, plan, max_age_s=max_age, any_code=any_code, as_json=as_json))
    if max_age is not None or any_code:
        raise PlanError("--max-age and --any-code say which pass still holds: add --status")
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
    state = str(run["state"])
    return (
        shown_id,
        str(run["plan"]),
        Text(state, style=_STYLES.get(state, "dim")),
        _yes_no(run["training_continued"]),
        _came_back(run["learners_rejoined"]),
        _started(run["started"]),
        _lasted(run),
        "-" if run["seed"] is None else str(run["seed"]),
    )


def _started(stamp: Json) -> str:
    """Start in local time, to the minute; `-` if it is no time, or not in the calendar's range."""
    try:
        return f"{datetime.fromisoformat(str(stamp)).astimezone():%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"


def _lasted(run: Mapping[str, Json]) -> str:
    """Duration of a run; of a simulation the simulated time."""
    for key, unit in (("simulated_s", "s sim"), ("lasted_s", "s")):
        if isinstance(length_s := run[key], float):
            return f"{length_s:.0f} {unit}"
    return "-"


def _yes_no(value: Json) -> str:
    return _YES_NO[value] if isinstance(value, bool) else "-"


def _came_back(learners: Json) -> str:
    """Number of learners that came back, of those that were taken away and asked to return."""
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
