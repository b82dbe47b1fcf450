"""`chaoslab systems`: systems of others that plans can train with."""

import click

from chaoslab.cli.commands.output import advise, examples, json_option, print_json
from chaoslab.core.errors import PlanError
from chaoslab.plan.model.systems import SYSTEMS
from chaoslab.prepare import systems


@click.group(
    name="systems",
    epilog=examples("chaoslab systems list", "chaoslab systems install torchft"),
)
def command() -> None:
    """Install and list the systems of others that plans can train with."""


@command.command(
    name="list", epilog=examples("chaoslab systems list", "chaoslab systems list --json")
)
@json_option
def show(*, as_json: bool) -> None:
    """List the systems, their algorithm and whether they are installed."""
    there = {name: systems.is_installed(name) for name in SYSTEMS}
    if as_json:
        print_json(
            {
                name: {
                    "about": system.about,
                    "algorithm": system.algorithm,
                    "packages": list(system.packages),
                    "installed": there[name],
                    "folder": str(systems.environment(name)),
                }
                for name, system in SYSTEMS.items()
            }
        )
        return
    for name, system in SYSTEMS.items():
        state = "installed" if there[name] else "not installed"
        click.echo(f"{name:9} {state:14} {system.algorithm:22} {system.about}")
    missing = [name for name in SYSTEMS if not there[name]]
    if missing:
        advise(f"chaoslab systems install {missing[0]}", "so that plans can train with it")


@command.command(
    name="install",
    epilog=examples("chaoslab systems install torchft", "chaoslab systems install --help"),
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def install(*, names: tuple[str, ...]) -> None:
    """Make the environment of each NAME in the cache, with packages from the registry of pip.

    PyTorch alone takes 5 GB. Exit code 4 if pip fails.
    """
    for name in _known(names):
        folder = systems.install(name, lambda line: click.echo(line, err=True))
        click.echo(f"{name}  {folder}")
    system = SYSTEMS[names[0]]
    settings = f"training.system={names[0]} --set training.algorithm={system.algorithm}"
    advise(f"chaoslab plan kill_half --set {settings}", "what it would be asked to survive")


@command.command(name="remove", epilog=examples("chaoslab systems remove torchft"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(*, names: tuple[str, ...]) -> None:
    """Remove the environment of each NAME."""
    for name in _known(names):
        click.echo(f"{name}  {'removed' if systems.remove(name) else 'was not there'}")


def _known(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SYSTEMS:
            raise PlanError(f"there is no system {name!r}: use {', '.join(SYSTEMS)}")
    return names
