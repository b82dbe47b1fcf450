"""What every command does alike: results on stdout, everything else on stderr.

    result ─► print_result ─► stdout        next thing to try ─► advise ─► stderr

It is imported by `chaoslab --help`, so it needs click alone; rich comes when a page is printed.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chaoslab.core.events import Json, encode

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_PLAIN_COLUMNS = 110


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value on stdout, nothing else."
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder of the run records.",
)


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(value: Json) -> None:
    """One indented JSON value on stdout; NaN and infinity become strings."""
    click.echo(json.dumps(json.loads(encode(value)), indent=2, ensure_ascii=False))


def print_result(
    value: Json, page: "RenderableType", *, as_json: bool, then: tuple[str, str] | None = None
) -> None:
    """With --json the value; otherwise the page, and as advice a command and why to try it.

    A page has colours on a terminal, and is plain text of fixed width elsewhere.
    """
    if as_json:
        print_json(value)
        return
    from rich.console import Console  # noqa: PLC0415  # `--help` must not import rich

    width = None if sys.stdout.isatty() else _PLAIN_COLUMNS
    Console(highlight=False, width=width).print(page)
    if then is not None:
        advise(*then)


def table(*titles: str, wraps: Collection[str] = ()) -> "Table":
    """An empty table with these columns; only those in `wraps` may break their lines."""
    from rich import box  # noqa: PLC0415  # see above
    from rich.table import Table  # noqa: PLC0415

    empty = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        empty.add_column(title, no_wrap=title not in wraps)
    return empty


def advise(command: str, why: str) -> None:
    """The next thing to try, on stderr."""
    click.echo(f"next: {command}   {why}", err=True)


def warn(text: str) -> None:
    """What will go wrong, or is likely a mistake, on stderr."""
    click.echo(f"warning: {text}", err=True)


def shown_path(path: Path) -> Path:
    """A path as short as it can be written from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
