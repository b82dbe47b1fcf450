"""`chaoslab faults`: the catalogue, with the words that a plan uses."""

import re
from collections.abc import Iterator, Mapping

import click
from rich.console import RenderableType

from chaoslab.cli import completing
from chaoslab.cli.commands.catalogue import chosen, details, lines
from chaoslab.cli.commands.output import examples, json_option, print_result
from chaoslab.cli.commands.settings import setting_lines, settings_json
from chaoslab.core.events import Json
from chaoslab.faults.base import Fault
from chaoslab.prepare.kinds import faults
from chaoslab.prepare.plans import bundled_plans


@click.command(
    name="faults",
    epilog=examples(
        "chaoslab faults", "chaoslab faults network", "chaoslab faults process.kill --json"
    ),
)
@click.argument("name", required=False, shell_complete=completing.faults)
@json_option
def command(*, name: str | None, as_json: bool) -> None:
    """List the faults; with a name, show settings and evidence.

    NAME is a fault such as `process.kill`, or a part of names such as `process` or `kill`.
    """
    found = chosen(name, dict(sorted(faults().items())), noun="fault")
    then = (f"chaoslab faults {next(iter(found))}", "its settings, what proves it, what it needs")
    if len(found) == 1:
        then = ("chaoslab plans", "plans that use faults; each can be copied and changed")
    value = [*map(fault_json, found.values())]
    print_result(value, _page(found), as_json=as_json, then=then)


def fault_json(fault: type[Fault]) -> Mapping[str, Json]:
    """One fault: its words, what it needs, and its settings as a plan writes them."""
    return {
        "fault": fault.name,
        "summary": fault.summary,
        "layer": fault.layer.value,
        "imitates": fault.imitates,
        "proof": fault.proof,
        "needs": sorted(need.value for need in fault().needs),
        "takes_away": fault.takes_away,
        "settings": settings_json(fault),
    }


def _page(found: Mapping[str, type[Fault]]) -> RenderableType:
    if len(found) > 1:
        return lines("fault", ((name, fault.summary) for name, fault in found.items()))
    ((name, fault),) = found.items()
    return details(
        name,
        fault.summary,
        [
            ("stands for", fault.imitates),
            ("acts on", fault.layer.value),
            ("settings", setting_lines(fault) or "none"),
            ("what proves it", fault.proof),
            ("needs", ", ".join(sorted(fault().needs)) or "nothing"),
            ("takes away", "the learner, until it is healed" if fault.takes_away else ""),
            ("used in", ", ".join(_plans_with(name)) or "no plan that comes with chaoslab"),
        ],
    )


def _plans_with(fault: str) -> Iterator[str]:
    """The plans that come with chaoslab and name it; read as text, which is quick."""
    names_it = re.compile(rf"\bfault: *{re.escape(fault)}(?![\w.])")
    for plan, path in bundled_plans().items():
        if names_it.search(path.read_text(encoding="utf-8")):
            yield plan
