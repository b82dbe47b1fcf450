"""`chaoslab compare PLAN`: the margins of a plan over its runs, and whether a green gate erodes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.archive.index import index
from chaoslab.archive.trend import CONFIDENCE, Direction, MarginTrend, Trend, trend
from chaoslab.cli.commands.output import fitting, named, print_result, typed
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.plan.file.document import nearest
from chaoslab.prepare.plans import Asked, decode
from chaoslab.report.hints import Record
from chaoslab.report.page import STYLES
from chaoslab.report.wording import OUTCOME_TONES, percent

_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = ("check", "newest", "median", "change", "interval", "margins", "direction")
_NUMBERS = _COLUMNS[1:5]
_MAX_DROP = 0.1
"""A margin that lost more is called eroding, unless --max-drop says otherwise."""
_CHARTED = 12
"""Newest runs in the chart of a margin."""
_STYLES = {Direction.FALLING: "bold red", Direction.RISING: "green", Direction.TOO_FEW: "dim"}


def show_trend(
    plan: str, out: Path, *, last: int, max_drop: float | None, as_json: bool
) -> ExitCode:
    """Print the trend of a plan, named or a file of it; the exit code, which is PASS without
    `max_drop`. PlanError if it has no runs.
    """
    name = decode(Asked(plan=plan))[0].name if Path(plan).is_file() else plan
    runs = index(out, name)
    if not runs:
        raise PlanError(nearest(plan, {run.plan for run in index(out)}, noun="plan with runs"))
    found = trend(runs, last=last)
    code = ExitCode.PASS if max_drop is None else found.exit_code(max_drop)
    most = _MAX_DROP if max_drop is None else max_drop
    print_result(
        {**_json(found, most), "exit_code": int(code)},
        _page(found, most),
        as_json=as_json,
        then=_next(found, out),
    )
    return code


def _next(found: Trend, out: Path) -> tuple[str, str]:
    last = found.runs[-1].directory
    again = Record.of(last, run=named(last, out), path=shown_path(last.path))
    if found.runs_missing and not again.is_attached:
        return f"chaoslab run {again.plan} --repeat {found.runs_missing}", "more runs tell more"
    if len(found.runs) == 1:
        return f"chaoslab show {typed(found.runs[0].directory, out)}", "what its checks found"
    first, newest = (typed(found.runs[at].directory, out) for at in (0, -1))
    return f"chaoslab compare {first} {newest}", "what changed since the oldest of these runs"


def _page(found: Trend, max_drop: float) -> RenderableType:
    rows = [
        (
            one.check, percent(one.margins[-1]), percent(one.median), *_slope(one),
            _chart(one.margins), Text(one.direction.value, style=_STYLES.get(one.direction, "")),
        )
        for one in found.margins
    ]  # fmt: skip
    page = fitting(_COLUMNS, rows, spare=("interval", "median"), right=_NUMBERS)
    return Group(_title(found), page, *_notes(found, max_drop))


def _title(found: Trend) -> Text:
    outcomes = [verdict.outcome for verdict in found.verdicts]
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(outcomes))
    style = f"reverse {STYLES[OUTCOME_TONES[outcomes[-1]]]}"
    since = f" since {found.runs[0].started:%Y-%m-%d}" if found.runs[0].started else ""
    whole = f"  {_runs(len(outcomes))}{since}: {counts}"
    return Text.assemble((f" {found.plan} ", style), whole)


def _slope(one: MarginTrend) -> tuple[str, str]:
    """Change over all runs, and between which two it lies."""
    if one.slope is None or one.change is None:
        return "", ""
    runs = len(one.margins) - 1
    low, high = (percent(end * runs) for end in (one.slope.low, one.slope.high))
    return percent(one.change), f"{low} to {high}"


def _chart(margins: Sequence[float]) -> str:
    """A bar for each margin from 0 to 100 %; those that are violated are crosses."""
    top = len(_BARS) - 1
    shown = margins[-_CHARTED:]
    return "".join("x" if one < 0 else _BARS[round(min(one, 1.0) * top)] for one in shown)


def _notes(found: Trend, max_drop: float) -> Iterator[Text]:
    if shares := found.effective_shares:
        yield Text(
            f"effective training time {shares[-1]:.1%}, median {median(shares):.1%} of "
            f"{_runs(len(shares))}  {_chart(shares)}"
        )
    if found.without_verdict:
        run, why = found.without_verdict
        yield Text(f"the newest run, {run.directory.id}, is left out: {why}", style="bold magenta")
    for one in found.eroding(max_drop):
        lost = f"{one.check} is eroding: {percent(one.change or 0.0)} in {_runs(len(one.margins))}"
        if one.runs_left is not None:
            lost += f"; at this pace nothing is left after {_runs(math.ceil(one.runs_left))}"
        yield Text(lost, style="bold red")
    if found.runs_missing:
        more = plural(found.runs_missing, "more run is", "more runs are")
        yield Text(f"{more} needed to tell whether all margins hold")
    if not found.has_margins:
        yield Text("no check of this plan has a margin")
    if found.left_out:
        reasons = ", ".join(f"{count} {why}" for why, count in found.left_out.items())
        yield Text(f"left out: {reasons}", style="dim")


def _runs(count: int) -> str:
    return plural(count, "run")


def _json(found: Trend, max_drop: float) -> Mapping[str, Json]:
    return {
        "plan": found.plan,
        "runs": [
            {
                "id": run.directory.id,
                "verdict": verdict.outcome.value,
                "commit": run.commit,
                "effective_share": None
                if verdict.work_lost is None
                else verdict.work_lost.effective_share,
            }
            for run, verdict in zip(found.runs, found.verdicts, strict=True)
        ],
        "left_out": {why.value: count for why, count in found.left_out.items()},
        "newest_left_out": found.without_verdict[1].value if found.without_verdict else None,
        "confidence": CONFIDENCE,
        "margins": [
            {
                "check": one.check,
                "margins": list(one.margins),
                "median": one.median,
                "change": one.change,
                "slope_per_run": one.slope.per_run if one.slope else None,
                "slope_interval": [one.slope.low, one.slope.high] if one.slope else None,
                "direction": one.direction.value,
                "runs_left": one.runs_left,
                "is_eroding": one.is_eroding(max_drop),
            }
            for one in found.margins
        ],
    }
