"""What can be written in a plan: `schema` for editors, `faults` for people."""

from typing import TYPE_CHECKING

import click

from chaoslab.commands.output import advise, json_option, print_json, print_page

if TYPE_CHECKING:
    from rich.console import RenderableType

    from chaoslab.events import Json


@click.command(name="schema")
@click.argument("what", type=click.Choice(["plan", "verdict"]), default="plan")
def schema_command(what: str) -> None:
    """Print the JSON Schema of fault plans, or of verdict.json.

    Editors that know YAML complete and check plans with it.

    \b
    Example:
      chaoslab schema > fault-plan.schema.json
      chaoslab schema verdict
    """
    from chaoslab.checks.catalogue import CHECKS
    from chaoslab.checks.verdict import schema
    from chaoslab.faults.catalogue import FAULTS
    from chaoslab.plan_file import json_schema

    print_json(json_schema(FAULTS, CHECKS) if what == "plan" else schema())


@click.command(name="faults")
@click.argument("family", required=False)
@json_option
def faults_command(family: str | None, as_json: bool) -> None:
    """List what can be broken, with settings and defaults, and how each fault is proved.

    FAMILY narrows the list: a family such as `process` or a full name such as `process.kill`.

    \b
    Example:
      chaoslab faults
      chaoslab faults process.kill --json
    """
    from chaoslab.errors import PlanError
    from chaoslab.faults.catalogue import FAULTS

    found = {
        name: fault
        for name, fault in sorted(FAULTS.items())
        if family in {None, name, name.partition(".")[0]}
    }
    if not found:
        raise PlanError(f"no fault is called {family!r}: there are {', '.join(sorted(FAULTS))}")
    entries = [fault_entry(fault) for fault in found.values()]
    if as_json:
        print_json(entries)
        return
    print_page(_page(entries))
    advise("chaoslab plan kill_half", "a plan that uses one of them, without running it")


def fault_entry(fault: type) -> "dict[str, Json]":
    """One fault of the catalogue as JSON: its words, its needs and its settings as in a plan."""
    return {
        "fault": fault.name,
        "summary": fault.summary,
        "proof": fault.proof,
        "needs": sorted(ability.value for ability in fault.needs),
        "takes_away": fault.takes_away,
        "settings": settings_of(fault),
    }


def settings_of(kind: type) -> "list[Json]":
    """The keys that a plan may write for a fault or a check, with defaults in the plan's units."""
    from chaoslab.plan_file.conventions import (
        default_of,
        field_docs,
        fields_of,
        hints_of,
        is_required,
        key_of,
    )
    from chaoslab.plan_file.writing import written_value

    def default(field) -> "Json":
        value = None if is_required(field) else default_of(field)
        return None if value is None else written_value(field.name, hints_of(kind)[field.name], value)

    return [
        {
            "key": key_of(field.name),
            "is_required": is_required(field),
            "default": default(field),
            "help": field_docs(kind).get(field.name, ""),
        }
        for field in fields_of(kind)
    ]
