"""`chaoslab schema`: what editors and other tools need to know of our two files."""

import click

from chaoslab.checks.verdict import schema
from chaoslab.cli.commands.output import advise, examples, print_json
from chaoslab.plan.file import json_schema
from chaoslab.prepare.kinds import kinds


@click.command(
    name="schema",
    epilog=examples("chaoslab schema > fault-plan.schema.json", "chaoslab schema verdict"),
)
@click.argument("what", type=click.Choice(["plan", "verdict"]), default="plan")
def command(*, what: str) -> None:
    """Print the JSON Schema of fault plans or of verdict.json.

    Editors with YAML support use it to complete and check a plan while it is written.
    """
    print_json(json_schema(kinds()) if what == "plan" else schema())
    if what == "plan":
        hint = "# yaml-language-server: $schema=fault-plan.schema.json"
        advise(f"write `{hint}`", "as the first line of a plan")
