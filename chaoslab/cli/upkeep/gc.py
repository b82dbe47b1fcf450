"""`chaoslab doctor gc`: old records removed, when asked to; the failing ones stay."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.archive.cleanup import (
    Candidate,
    CleanUp,
    PlanSum,
    Rules,
    by_plan,
    candidates,
    plan_cleanup,
    remove,
)
from chaoslab.archive.index import index
from chaoslab.checks.base import Outcome
from chaoslab.cli.commands.options import age, bundled, duration, size
from chaoslab.cli.commands.output import examples, fitting, json_option, out_option, print_result
from chaoslab.core.errors import ExitCode, FleetError
from chaoslab.core.events import Json
from chaoslab.core.units import plural
from chaoslab.record.run_directory import shown_ids
from chaoslab.run.twin import TWINS

_NAMED = 10
"""Most records that are listed one by one; more are summed by plan."""
_VERDICTS = (Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN)
_KEY = 12
"""Characters of a twin's key that are shown."""


def _rules(
    older_than: float | None,
    max_size: int | None,
    keep_last: int,
    with_failing: bool,  # the value of an option
) -> Rules:
    return Rules(
        older_than_s=older_than,
        most_bytes=max_size,
        keep_last=keep_last,
        keeps_failing=not with_failing,
    )


@click.command(
    name="gc",
    epilog=examples(
        "chaoslab doctor gc",
        "chaoslab doctor gc --older-than 30d",
        "chaoslab doctor gc --max-size 10GB --keep-last 5 --yes",
        "chaoslab doctor gc --older-than 90d --failing --yes",
    ),
)
@bundled(
    "rules",
    _rules,
    click.option("--older-than", callback=duration, metavar="TIME",
                 help="Remove what began longer ago, for example 30d."),
    click.option("--max-size", callback=size, metavar="SIZE", help="Remove the oldest until the "
                 "rest is smaller, for example 10GB."),
    click.option("--keep-last", type=click.IntRange(1), default=1, show_default=True, metavar="N",
                 help="Keep the newest N runs of each plan."),
    click.option("--failing", "with_failing", is_flag=True,
                 help="Remove runs that are not PASS, too."),
)  # fmt: skip
@click.option("--yes", "is_agreed", is_flag=True, help="Remove; without it they are only shown.")
@out_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    *,
    rules: Rules,
    is_agreed: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Remove old runs; keep the failing ones.

    Shows what would be removed, and removes it with --yes: up to ten records one by one, more as
    sums of each plan. Kept whatever is asked: runs that go on, have something to undo or are
    another user's, the newest of each plan, and, without --failing, all that are not PASS. Kept
    twins are removed by the same age and size: the next run of their plan makes a new one.

    Exit code 4 if something could not be removed.
    """
    found = plan_cleanup(candidates(out, index(out), rules, datetime.now(UTC)), rules)
    failures = _remove(found) if is_agreed else []
    page = _page(found, rules, is_done=is_agreed)
    print_result(
        _json(found, failures, is_done=is_agreed),
        page,
        as_json=as_json,
        then=_next(found, rules, is_done=is_agreed),
    )
    for text in failures:
        click.echo(f"chaoslab: {text}", err=True)
    context.exit(ExitCode.BROKEN if failures else ExitCode.PASS)


def _remove(found: CleanUp) -> list[str]:
    """Remove all that can be; why the others could not."""
    failures = []
    for one, _ in found.removed:
        try:
            remove(one)
        except FleetError as error:
            failures.append(str(error))
    return failures


def _next(found: CleanUp, rules: Rules, *, is_done: bool) -> tuple[str, str] | None:
    if found.removed and not is_done:
        return "add --yes", "remove them; nothing was removed yet"
    if not rules.has_bounds:
        return "chaoslab doctor gc --older-than 30d", "what would be removed of them"
    return None


# ---------------------------------------------------------------- as a page


def _page(found: CleanUp, rules: Rules, *, is_done: bool) -> RenderableType:
    going, total = len(found.removed), len(found.removed) + len(found.kept)
    verb = "removed" if is_done else "would remove"
    parts: list[RenderableType] = []
    if 0 < going <= _NAMED:
        parts.append(_records(found))
    elif total:
        parts.append(_plans(by_plan(found), rules, is_done=is_done))
    if not rules.has_bounds:
        return Group(*parts, Text(f"{plural(total, 'record')}, {_size(found.kept_bytes)}"))
    parts.append(
        Text(f"{verb} {going:,} of {plural(total, 'record')}, {_size(found.freed_bytes)}; "
             f"{_size(found.kept_bytes)} {'stay' if is_done else 'would stay'}")
    )  # fmt: skip
    if kept := _kept(found.kept):
        is_over = rules.most_bytes is not None and found.kept_bytes > rules.most_bytes
        more = "the rest is larger than asked; " if is_over else ""
        parts.append(Text(f"{more}must stay: {kept}", style="yellow" if is_over else "dim"))
    return Group(*parts)


def _plans(sums: Sequence[PlanSum], rules: Rules, *, is_done: bool) -> RenderableType:
    """A line for each plan, the largest first, with what would go of it."""
    going = ("removed", "freed") if is_done else ("would go", "frees")
    titles = ("plan", "records", *_VERDICTS, "size", "oldest", *(going if rules.has_bounds else ()))
    rows = [
        (
            one.plan or "kept twins",
            f"{one.records:,}",
            *(_count(one.outcomes[outcome]) for outcome in _VERDICTS),
            _size(one.size_bytes),
            age(one.oldest_s),
            *((_count(one.removed), _size(one.freed_bytes) if one.removed else "-")
              if rules.has_bounds else ()),
        )
        for one in sums
    ]  # fmt: skip
    return fitting(titles, rows, spare=(*_VERDICTS, "oldest"), right=titles[1:])


def _records(found: CleanUp) -> RenderableType:
    """A line for each record that goes, the oldest first."""
    ids = shown_ids(one.path.name for one, _ in found.removed)
    rows = [
        (
            f"{TWINS}/{one.path.name[:_KEY]}" if one.plan is None
            else f"{one.plan}/{ids[one.path.name]}",
            one.outcome.value if one.outcome else "-",
            age(one.age_s),
            _size(one.size_bytes),
            why.value,
        )
        for one, why in found.removed
    ]  # fmt: skip
    titles = ("record", "verdict", "age", "size", "why")
    return fitting(titles, rows, spare=("verdict",), right=("age", "size"))


def _kept(kept: Sequence[Candidate]) -> str:
    """Number of records that stay, for each reason."""
    reasons = Counter(one.keep.value for one in kept if one.keep is not None)
    return ", ".join(f"{times:,} {why}" for why, times in reasons.items())


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def _size(size_bytes: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1000:.0f} kB"


def _json(found: CleanUp, failures: Sequence[str], *, is_done: bool) -> Mapping[str, Json]:
    return {
        "is_removed": is_done,
        "removed": [{**_one(one), "why": why.value} for one, why in found.removed],
        "kept": [{**_one(one), "keep": one.keep.value if one.keep else None} for one in found.kept],
        "freed_bytes": found.freed_bytes,
        "kept_bytes": found.kept_bytes,
        "failures": list(failures),
    }


def _one(one: Candidate) -> Mapping[str, Json]:
    return {
        "path": str(one.path),
        "plan": one.plan,
        "verdict": one.outcome.value if one.outcome else None,
        "is_twin": one.is_twin,
        "size_bytes": one.size_bytes,
        "age_s": one.age_s,
    }
