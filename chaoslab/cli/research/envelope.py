"""`chaoslab research envelope`: how far the settings of a plan can go until it fails."""

from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import Final

import click
from rich.console import Console

from chaoslab.cli import completing
from chaoslab.cli.commands.options import set_option
from chaoslab.cli.commands.output import (
    advise,
    columns,
    examples,
    json_option,
    print_json,
    progress,
    table,
    warn,
)
from chaoslab.core.errors import AbilityError, ExitCode, PlanError
from chaoslab.experiments.axes import Axis, Question, axis_of
from chaoslab.experiments.envelope import Search, carry_out
from chaoslab.plan.model import FaultPlan
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.provenance import cores

_UNLIMITED: Final = ("limits.max_affected=100%", "limits.min_alive=0", "limits.timeout=1h")
"""Settings that lift the plan's limits: the search is for how far one could go."""
_ASKED: Final = {
    Question.SHARE: "largest share",
    Question.OUTAGE: "longest outage",
    Question.LINK: "thinnest link",
    Question.RATE: "highest failure rate",
}
_LONGEST_REASON: Final = 160
_RANGE: Final = "QUESTION|KEY=LOW..HIGH"


@click.command(
    name="envelope",
    epilog=examples(
        "chaoslab research envelope kill_half",
        "chaoslab research envelope mtbf_soak --vary rate --by share --seeds 5",
        "chaoslab research envelope kill_half --vary outage --by share --seed 3",
        "chaoslab research envelope wan_throttle --vary faults.thin.rate=5kB/s..1MB/s",
    ),
)
@click.argument("plan", shell_complete=completing.plans)
@click.option("--vary", metavar=_RANGE,
              help="The setting whose border is looked for. Default: all questions, and the "
              "longest outage by the share.")  # fmt: skip
@click.option("--by", metavar=_RANGE,
              help="A second setting: a border for each of its values, the frontier.")  # fmt: skip
@set_option
@click.option("--seed", type=int, metavar="S", help="The first seed. Default: that of the plan.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Seeds that must all pass, from the first one on.")  # fmt: skip
@click.option("--costs", type=click.Path(), metavar="FILE",
              help="What work takes, from `chaoslab research calibrate`.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), metavar="N",
              help="Worker processes. Default: one for each core.")  # fmt: skip
@json_option
@click.pass_context
def command(  # noqa: PLR0913  # one for each part of the question
    context: click.Context, *, plan: str, vary: str | None, by: str | None,
    settings: tuple[str, ...], seed: int | None, seeds: int, costs: str | None, jobs: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Simulate a plan with ever harsher settings, up to where it no longer passes.

    Each line names the last value that passes, the next one that does not, and why; they are found
    by bisection. The plan's limits on time and on affected learners are lifted.

    QUESTION is asked of the first fault of the plan that it fits. `share`: how many learners may be
    hit at once. `outage`: how long it may last, up to five minutes. `link`: how thin links may be,
    those of a fault with a rate or else all, always. `rate`: how short the mean time between
    failures may be (`arrivals`). Any other setting is named with its range, written as in a plan:
    1s..5m, 1..4, 10kB/s..1MB/s.

    Ctrl-C shows what was found so far.

    Exit codes: 0 some value passes, 1 none does, 2 refused, 130 interrupted.
    """
    asked = Asked(plan=plan, settings=(*_UNLIMITED, *settings), seed=seed, fleet="sim", costs=costs)
    known = prepare(asked).plan
    searches, not_asked = _searches(asked, known, vary, by)
    numbers = range(known.seed, known.seed + seeds)
    is_interrupted = False
    try:
        carry_out(searches, numbers, jobs=jobs or min(cores(), 2 * len(searches)),
                  on_progress=progress("envelope"))  # fmt: skip
    except KeyboardInterrupt:
        is_interrupted = True
        click.echo("chaoslab: interrupted; this was found before", err=True)
    if as_json:
        print_json({
            "seeds": list(numbers),
            "interrupted": is_interrupted,
            "edges": [search.to_json() for search in searches],
            "not_asked": dict(not_asked),
        })  # fmt: skip
    else:
        _show(searches, not_asked)
    if is_interrupted:
        context.exit(ExitCode.INTERRUPTED)
    passes = any(search.edge().passes is not None for search in searches)
    context.exit(ExitCode.PASS if passes else ExitCode.FAIL)


# ---------------------------------------------------------------- what is looked for


def _searches(
    asked: Asked, plan: FaultPlan, vary: str | None, by: str | None
) -> tuple[Sequence[Search], dict[str, str]]:
    """Searches to make, and why a question that the plan does not allow is left out."""
    if vary is not None or by is not None:
        axis, rows = _axis("--vary", vary or Question.OUTAGE, asked, plan), None
        if by is not None:
            rows = _axis("--by", by, asked, plan)
            short, long = sorted((axis.key, rows.key), key=len)
            if f"{long}.".startswith(f"{short}."):
                raise PlanError(f"{rows.key} is what `--vary` asks for: name another", where="--by")
        return _frontier(asked, axis, rows), {}
    axes: dict[str, Axis] = {}
    not_asked: dict[str, str] = {}
    for question in Question:
        try:
            axes[question] = axis_of(question, plan)
        except PlanError as error:
            not_asked[question] = error.message
    searches = [Search(axis=axis, asked=asked) for axis in axes.values()]
    if Question.OUTAGE in axes and Question.SHARE in axes:
        searches += _frontier(asked, axes[Question.OUTAGE], axes[Question.SHARE])
    return searches, not_asked


def _frontier(asked: Asked, axis: Axis, rows: Axis | None) -> Sequence[Search]:
    given = [rows.setting(value) for value in rows.values] if rows else [""]
    return [Search(axis=axis, asked=asked, given=one) for one in given]


def _axis(option: str, text: str, asked: Asked, plan: FaultPlan) -> Axis:
    """The axis of an option; PlanError names the option, also if the plan is refused all along."""
    try:
        axis = axis_of(text, plan)
    except PlanError as error:
        raise PlanError(error.message, where=option, key=error.key) from error
    if axis.question is not None:
        return axis
    refused = dict(_refusals(Search(axis=axis, asked=asked)))
    told = [f"{option} {text}: the plan is refused at {end}: {why}" for end, why in refused.items()]
    if len(told) > 1:
        raise PlanError("\n".join(told))
    for one in told:
        warn(f"{one}; this counts as a value that does not pass")
    return axis


def _refusals(search: Search) -> Iterator[tuple[str, str]]:
    """Ends of a range with which the plan is no plan, and why."""
    for end in (search.axis.low, search.axis.high):
        try:
            prepare(search.with_value(end))
        except (PlanError, AbilityError) as error:
            yield search.axis.text(end), str(error)


# ---------------------------------------------------------------- the page


def _show(searches: Sequence[Search], not_asked: dict[str, str]) -> None:
    console = Console(width=columns(), emoji=False, highlight=False)
    single = [search for search in searches if not search.given]
    rows = [search for search in searches if search.given]
    if single or not_asked:
        shown = table("question", "setting", "passes", "fails", "because", wraps=("because",))
        for search in single:
            axis = search.axis
            asked = _ASKED[axis.question] if axis.question else "furthest value"
            shown.add_row(asked, axis.key, *_cells(search))
        for question, why in not_asked.items():
            shown.add_row(_ASKED[Question(question)], "-", "-", "-", f"not asked: {why}")
        console.print(shown)
    if rows:
        key = rows[0].axis.key
        shown = table("with", f"{key} passes", "fails", "because", wraps=("because",))
        for search in rows:
            shown.add_row(search.given, *_cells(search))
        console.print(shown)
    _show_harshest(searches)


def _cells(search: Search) -> Iterator[str]:
    axis, edge, is_found = search.axis, search.edge(), not search.wanted()
    for value in (edge.passes, edge.fails):
        yield ("none" if is_found else "?") if value is None else axis.text(value)
    reason = shorten(edge.reason, _LONGEST_REASON, placeholder=" …")
    yield reason if is_found else f"not finished. {reason}"


def _show_harshest(searches: Sequence[Search]) -> None:
    """Command that shows a value that does not pass."""
    for search in searches:
        edge = search.edge()
        if edge.fails is not None:
            again = search.with_value(edge.fails).again()
            advise(f"chaoslab run {again}", shorten(edge.reason, _LONGEST_REASON, placeholder=" …"))
            return
