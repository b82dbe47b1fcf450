"""`chaoslab list --status`: each plan with its last verdict, and whether that still holds."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.archive.index import index
from chaoslab.archive.last_verdicts import LastVerdict, State, code_here, last_verdicts, worst
from chaoslab.cli.commands.options import age
from chaoslab.cli.commands.output import fitting, named, print_result, typed
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Json
from chaoslab.core.terminal import shown_path
from chaoslab.core.units import plural
from chaoslab.report.hints import Record
from chaoslab.report.wording import margin

_STYLES = {
    State.PASS: "bold green", State.FAIL: "bold red", State.UNKNOWN: "magenta",
    State.EXPIRED: "yellow", State.OTHER_CODE: "yellow", State.DAMAGED: "yellow",
}  # fmt: skip
_COLUMNS = ("plan", "fleet", "state", "age", "commit", "tightest margin", "version", "run")
_COMMIT_CHARACTERS = _VERSION_CHARACTERS = 8


def show_status(
    out: Path, plan: str | None, *, max_age_s: float | None, any_code: bool, as_json: bool
) -> ExitCode:
    """Print what each plan is known to do, or one; the worst of it as an exit code."""
    found = last_verdicts(
        index(out, plan),
        datetime.now(UTC),
        max_age_s=max_age_s,
        code_of=None if any_code else code_here,
    )
    code = worst(found)
    value: Json = {"exit_code": int(code), "plans": [*map(_json, found)]}
    print_result(value, _page(found, out), as_json=as_json, then=_next(found, out))
    return code


def _next(found: Sequence[LastVerdict], out: Path) -> tuple[str, str]:
    for one in found:
        if one.state in (State.FAIL, State.UNKNOWN):
            run = typed(one.run.directory, out)
            return f"chaoslab show {run}", f"what the last run of {one.plan} found"
    for one in found:
        if one.state is State.DAMAGED:
            run = typed(one.run.directory, out)
            return f"chaoslab show {run}", f"why the last run of {one.plan} cannot be read"
    for one in found:
        if one.exit_code is not ExitCode.PASS:
            last, path = one.run.directory, shown_path(one.run.directory.path)
            again = Record.of(last, run=named(last, out), path=path)
            if again.is_attached:
                return f"chaoslab show {again.run}", f"the last run of {one.plan}"
            return f"chaoslab run {again.plan}", "a verdict that holds now"
    if found:
        return f"chaoslab compare {found[0].plan}", "the margins of a plan over its runs"
    return "chaoslab run kill_half", "make a first run"


def _page(found: Sequence[LastVerdict], out: Path) -> RenderableType:
    if not found:
        return Text(f"no runs under {out} yet", no_wrap=True, overflow="ignore")
    rows = [
        (
            one.plan,
            one.fleet,
            Text(one.state.value, style=_STYLES.get(one.state, "dim")),
            age(one.age_s),
            _commit(one.run.commit),
            f"{one.tightest.check} {margin(one.tightest)}" if one.tightest else "",
            one.version[:_VERSION_CHARACTERS],
            one.run.directory.short_id + (" (one runs)" if one.is_running else ""),
        )
        for one in found
    ]
    page = fitting(_COLUMNS, rows, spare=("run", "version", "tightest margin"))
    passing = sum(one.exit_code is ExitCode.PASS for one in found)
    verb = "passes" if 1 in (passing, len(found)) else "pass"
    return Group(page, Text(f"{passing} of {plural(len(found), 'plan')} {verb}"))


def _commit(commit: str | None) -> str:
    if commit is None:
        return "-"
    return commit[:_COMMIT_CHARACTERS] + ("+" if commit.endswith("+") else "")


def _json(one: LastVerdict) -> Mapping[str, Json]:
    return {
        "plan": one.plan,
        "fleet": one.fleet,
        "version": one.version,
        "state": one.state.value,
        "damage": one.damage or None,
        "verdict": one.run.outcome.value if one.run.outcome else None,
        "age_s": one.age_s,
        "commit": one.run.commit,
        "is_running": one.is_running,
        "tightest": {"check": one.tightest.check, "margin": one.tightest.margin}
        if one.tightest
        else None,
        "run": one.run.directory.id,
        "path": str(one.run.directory.path),
    }
