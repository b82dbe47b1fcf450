"""`chaoslab compare`: two runs side by side, and what changed in between; or a plan's trend."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.archive.compare import Comparison, Pair, Regression, compare
from chaoslab.archive.index import PastRun
from chaoslab.checks.base import Finding
from chaoslab.checks.verdict import finding_json
from chaoslab.cli import completing
from chaoslab.cli.commands.options import percentage
from chaoslab.cli.commands.output import (
    examples,
    json_option,
    out_option,
    print_result,
    table,
    typed,
)
from chaoslab.cli.commands.trend import show_trend
from chaoslab.core.errors import ExitCode, PlanError
from chaoslab.core.events import Json
from chaoslab.record.run_directory import RunDirectory, shown_ids
from chaoslab.report.page import STYLES
from chaoslab.report.wording import OUTCOME_TONES, margin, percent

_LAST = 30
"""Runs of a trend, unless --last says otherwise."""
_SIDES = ("A", "B")
_WORDS = {Regression.NONE: "", Regression.WORSE: "worse", Regression.UNKNOWN: "not told"}
_STYLES = {Regression.NONE: "", Regression.WORSE: "bold red", Regression.UNKNOWN: "magenta"}
_SHOWN_CHARACTERS = 60
_LEAST_CHANGE = 0.0005
_COMMIT_LENGTH = 40
_COMMIT = re.compile(rf"[0-9a-f]{{{_COMMIT_LENGTH}}}\+?")
_COMMIT_CHARACTERS = 12


@click.command(
    name="compare",
    epilog=examples(
        "chaoslab compare 3f9a1c latest",
        "chaoslab compare 3f9a1c 81b2d0 --max-drop 10%",
        "chaoslab compare 3f9a1c latest --json | jq .changes",
        "chaoslab compare kill_half",
        "chaoslab compare kill_half --last 50 --max-drop 5%",
    ),
)
@click.argument("before", metavar="A", shell_complete=completing.runs)
@click.argument("after", metavar="[B]", required=False, shell_complete=completing.runs)
@click.option("--last", type=click.IntRange(1), metavar="N", help=f"Of a plan alone: look at its "
              f"newest N runs.  [default: {_LAST}]")  # fmt: skip
@click.option(
    "--max-drop",
    callback=percentage,
    metavar="P%",
    help="Exit with 1 if a margin fell by more, or if a check fails in B alone.",
)
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context, *, before: str, after: str | None, last: int | None,
    max_drop: float | None, out: Path, as_json: bool,
) -> None:  # fmt: skip
    """Compare two runs, or show the margins of a plan over its runs.

    A and B are each a path, `latest`, the name of a plan, or the beginning of an id. What changed
    is told by seed, plan, code and machine.

    Without B, A is the name or the file of a plan. Compared are its runs with the same version of
    the plan, fleet and kind of machine as the newest; seeds and code may differ. A margin is
    falling if the slope over its runs is below 0 with 99% confidence, and eroding if it has lost
    more than --max-drop (10%), too.

    Exit codes: 0; with --max-drop 1 if something got worse, 3 if a check that passed in A has no
    answer in B. Without B: with --max-drop that of the newest run that is over if it is not PASS (3
    if it has no verdict), 1 if a margin is eroding, 3 if there are too few runs to tell.
    """
    if after is None:
        context.exit(
            show_trend(before, out, last=last or _LAST, max_drop=max_drop, as_json=as_json)
        )
    if last is not None:
        raise PlanError("--last is about the runs of a plan: name the plan alone")
    found = compare(*(PastRun.of(RunDirectory.open(one, root=out)) for one in (before, after)))
    code = ExitCode.PASS if max_drop is None else found.exit_code(max_drop)
    print_result(
        {**_json(found, max_drop), "exit_code": int(code)},
        Group(*_heads(found), _pairs(found, max_drop), *_reasons(found), _changes(found)),
        as_json=as_json,
        then=(f"chaoslab show {typed(found.after.directory, out)}", "the timeline of B"),
    )
    context.exit(code)


# ---------------------------------------------------------------- as a page


def _heads(found: Comparison) -> list[Text]:
    runs = (found.before, found.after)
    ids = shown_ids(run.directory.id for run in runs)
    return [
        Text.assemble(
            f"{side}  ",
            (verdict.outcome.value, STYLES[OUTCOME_TONES[verdict.outcome]]),
            f"  {run.plan}/{ids[run.directory.id]}",
        )
        for side, run, verdict in zip(_SIDES, runs, found.verdicts, strict=True)
    ]


def _pairs(found: Comparison, max_drop: float | None) -> RenderableType:
    numbers = ("margin", "change", "baseline noise")
    page = table("check", "A", "margin", "B", *numbers, "", right=numbers)
    for pair in found.pairs:
        regression = Regression.NONE if max_drop is None else pair.regression(max_drop)
        page.add_row(
            pair.check, _outcome(pair.before), _margin(pair.before), _outcome(pair.after),
            _margin(pair.after), _change(pair.change), _noise(pair),
            Text(_WORDS[regression], style=_STYLES[regression]),
        )  # fmt: skip
    return page


def _reasons(found: Comparison) -> Iterator[Text]:
    """Why a check that passed in A does not pass in B."""
    for pair in found.pairs:
        if pair.after is not None and pair.is_broken:
            style = STYLES[OUTCOME_TONES[pair.after.outcome]]
            yield Text.assemble((f"{pair.check} in B: ", style), pair.after.reason)


def _outcome(finding: Finding | None) -> Text:
    if finding is None:
        return Text("-", style="dim")
    return Text(finding.outcome.value, style=STYLES[OUTCOME_TONES[finding.outcome]])


def _margin(finding: Finding | None) -> str:
    return "" if finding is None else margin(finding)


def _change(share: float | None) -> str:
    """Change of a margin; empty if it is too small to show."""
    if share is None:
        return ""
    return percent(share if abs(share) >= _LEAST_CHANGE else 0.0)


def _noise(pair: Pair) -> str:
    """Noise of both baselines; empty for a check that compares with none."""
    if set(pair.noises) == {None}:
        return ""
    return " -> ".join("?" if one is None else f"{one:.1%}" for one in pair.noises)


def _changes(found: Comparison) -> RenderableType:
    if not found.changes:
        return Text("nothing that is on record changed: same plan, seed, code and machine")
    page = table("changed", "what", "A", "B", wraps=("what", "A", "B"))
    for one in found.changes:
        page.add_row(one.area.value, *map(_short, (one.what, one.before, one.after)))
    for column in page.columns:
        column.overflow = "fold"
    return page


def _short(text: str) -> Text:
    if _COMMIT.fullmatch(text):
        return Text(text[:_COMMIT_CHARACTERS] + text[_COMMIT_LENGTH:])
    cut = len(text) > _SHOWN_CHARACTERS
    return Text(f"{text[:_SHOWN_CHARACTERS]}…" if cut else text or "-")


# ---------------------------------------------------------------- as JSON


def _json(found: Comparison, max_drop: float | None) -> Mapping[str, Json]:
    return {
        "before": _run_json(found.before),
        "after": _run_json(found.after),
        "findings": [_pair_json(pair, max_drop) for pair in found.pairs],
        "changes": [
            {"area": one.area.value, "what": one.what, "before": one.before, "after": one.after}
            for one in found.changes
        ],
    }


def _run_json(run: PastRun) -> Mapping[str, Json]:
    return {
        "plan": run.plan,
        "id": run.directory.id,
        "verdict": run.outcome.value if run.outcome else None,
        "path": str(run.directory.path),
    }


def _pair_json(pair: Pair, max_drop: float | None) -> Mapping[str, Json]:
    return {
        "check": pair.check,
        "before": finding_json(pair.before) if pair.before else None,
        "after": finding_json(pair.after) if pair.after else None,
        "margin_change": pair.change,
        "baseline_noise": list(pair.noises),
        "regression": None if max_drop is None else pair.regression(max_drop).value,
    }
