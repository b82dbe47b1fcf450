"""What every command does alike: results on stdout, everything else on stderr.

    result ─► print_json / print_page ─► stdout        next thing to try ─► advise ─► stderr
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from chaoslab.events import Json

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(slots=True)
class Invocation:
    """What the command line knows of the command that is going on."""

    run_directory: Path | None = None
    """Where a traceback is kept if it breaks."""


def json_option(command: Command) -> Command:
    """The `--json` switch, the same for every command that prints results."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON value on stdout and nothing else."
    )(command)


def out_option(command: Command) -> Command:
    """The `--out` folder of runs, the same for every command that reads or writes records."""
    return click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("runs"),
        show_default=True,
        help="Folder that holds the records of runs.",
    )(command)


def print_json(value: "Json") -> None:
    """One indented JSON value on stdout; NaN and infinity become strings."""
    from chaoslab.events import encode

    click.echo(json.dumps(json.loads(encode(value)), indent=2, ensure_ascii=False))


def print_page(page: "RenderableType") -> None:
    """A page on stdout; without a terminal it is plain text of 100 columns."""
    import sys

    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, highlight=False, width=None if is_terminal else 100)
    console.print(page)


def advise(command: str, why: str) -> None:
    """The next thing to try, on stderr."""
    click.echo(f"next: {command}   {why}", err=True)
