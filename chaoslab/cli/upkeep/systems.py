"""`chaoslab doctor systems`: environments of the systems of others that plans can train with."""

import click

from chaoslab.cli.commands.output import advise, examples
from chaoslab.core.errors import PlanError
from chaoslab.plan.file.document import nearest
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare import systems


@click.command(
    name="systems",
    epilog=examples(
        "chaoslab doctor systems install torchft", "chaoslab doctor systems remove torchft"
    ),
)
@click.argument("action", type=click.Choice(["install", "remove"]))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def command(*, action: str, names: tuple[str, ...]) -> None:
    """Install or remove the systems of others that plans can train with.

    Each NAME of `chaoslab catalog systems` has an environment of its own in the cache, with
    packages from the registry of pip. PyTorch alone takes 5 GB. Exit code 4 if pip fails.
    """
    for name in names:
        if name not in SYSTEMS:
            raise PlanError(nearest(name, SYSTEMS, noun="system"))
    for name in names:
        if action == "remove":
            click.echo(f"{name}  {'removed' if systems.remove(name) else 'was not there'}")
        else:
            folder = systems.install(name, lambda line: click.echo(line, err=True))
            click.echo(f"{name}  {folder}")
    advise(f"chaoslab catalog systems {names[0]}", "its algorithm, and a plan to try")
