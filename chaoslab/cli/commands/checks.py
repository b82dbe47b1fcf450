"""`chaoslab checks`: what a plan can expect of a run."""

from collections.abc import Mapping

import click
from rich.console import RenderableType

from chaoslab.checks.base import Check
from chaoslab.cli import completing
from chaoslab.cli.commands.catalogue import chosen, details, lines
from chaoslab.cli.commands.output import examples, json_option, print_result
from chaoslab.cli.commands.settings import setting_lines, settings_json
from chaoslab.core.events import Json
from chaoslab.prepare.kinds import kinds


@click.command(
    name="checks",
    epilog=examples("chaoslab checks", "chaoslab checks rejoin", "chaoslab checks --json"),
)
@click.argument("name", required=False, shell_complete=completing.checks)
@json_option
def command(*, name: str | None, as_json: bool) -> None:
    """List the checks; with a name, show settings.

    NAME is a check such as `rejoin`, or a part of names. Some rules are judged in every run: two
    questions (did training continue, did the learners rejoin), the evidence of every fault, and
    what was left behind.
    """
    found = chosen(name, dict(sorted(kinds().checks.items())), noun="check")
    then = (f"chaoslab checks {next(iter(found))}", "its settings")
    if len(found) == 1:
        then = ("chaoslab judge latest --expect-from PLAN", "judge a record by other checks")
    value = [*map(check_json, found.values())]
    print_result(value, _page(found), as_json=as_json, then=then)


def check_json(check: type[Check]) -> Mapping[str, Json]:
    """One check: its words and its settings as a plan writes them."""
    return {"check": check.name, "summary": check.summary, "settings": settings_json(check)}


def _page(found: Mapping[str, type[Check]]) -> RenderableType:
    if len(found) > 1:
        return lines("check", ((name, check.summary) for name, check in found.items()))
    ((name, check),) = found.items()
    required = ", ".join(f"{one['key']}: …" for one in settings_json(check) if one["is_required"])
    example = f"- {{check: {name}{f', {required}' if required else ''}}}"
    settings = setting_lines(check) or "none"
    return details(name, check.summary, [("settings", settings), ("under `expect`", example)])
