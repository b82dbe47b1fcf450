"""`chaoslab faults`: the catalogue, with the words that a plan uses."""

from collections.abc import Iterable, Mapping

import click
from rich.console import Group, RenderableType
from rich.text import Text

from chaoslab.cli.commands.output import examples, json_option, print_result, table
from chaoslab.core.errors import PlanError
from chaoslab.core.events import Json
from chaoslab.faults.base import Fault
from chaoslab.plan.file.conventions import field_docs, fields_of, hints_of, is_required, key_of
from chaoslab.plan.file.document import nearest
from chaoslab.plan.file.writing import written_default
from chaoslab.prepare.kinds import faults


@click.command(
    name="faults", epilog=examples("chaoslab faults", "chaoslab faults process.kill --json")
)
@click.argument("name", required=False)
@json_option
def command(*, name: str | None, as_json: bool) -> None:
    """List the faults, their settings and their evidence.

    NAME selects a family such as `process`, or one fault such as `process.kill`.
    """
    known = faults()
    chosen = [
        fault
        for full_name, fault in sorted(known.items())
        if name in {None, full_name, full_name.partition(".")[0]}
    ]
    if not chosen:
        raise PlanError(nearest(str(name), known, noun="fault"))
    then = ("chaoslab plan kill_half", "see what a plan would do, without doing it")
    print_result([*map(fault_json, chosen)], _page(chosen), as_json=as_json, then=then)


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


def settings_json(fault: type[Fault]) -> list[Mapping[str, Json]]:
    """The keys that a plan may write for a fault, with defaults in the plan's own units."""
    hints = hints_of(fault)
    return [
        {
            "key": key_of(field.name),
            "is_required": is_required(field),
            "default": written_default(field, hints[field.name]),
            "help": field_docs(fault).get(field.name, ""),
        }
        for field in fields_of(fault)
    ]


def _page(chosen: Iterable[type[Fault]]) -> RenderableType:
    about = ("what it does", "stands for", "settings", "what proves it", "needs")
    found = table("fault", *about, wraps=about)
    for fault in chosen:
        settings = map(_setting, settings_json(fault))
        found.add_row(
            fault.name, fault.summary, f"{fault.imitates} (acts on: {fault.layer})",
            "\n".join(settings), fault.proof, ", ".join(sorted(fault().needs)),
        )  # fmt: skip
    return Group(found, Text("A plan names a fault in full; `for` heals it, `target` and `at` say "
                             "whom and when.", style="dim"))  # fmt: skip


def _setting(about: Mapping[str, Json]) -> str:
    if about["is_required"]:
        return f"{about['key']} (required)"
    return str(about["key"]) if about["default"] is None else f"{about['key']}: {about['default']}"
