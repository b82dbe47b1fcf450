"""Output of every command: results on stdout, everything else on stderr.

result ─► print_result ─► stdout        next thing to try ─► advise ─► stderr
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json, encode
from chaoslab.core.terminal import harmless, shown_path
from chaoslab.core.units import plural, show_duration

if TYPE_CHECKING:
    from chaoslab.record.run_directory import RunDirectory

_PLAIN_COLUMNS = 110
"""Columns without COLUMNS and a terminal, as in the log of a CI job."""
_LEAST_COLUMNS = 20
"""A page is never narrower: a letter to a line cannot be read."""
_OUT = Path("runs")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value on stdout, nothing else."
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=_OUT,
    show_default=True,
    help="Folder of the run records.",
)


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def print_json(value: Json) -> None:
    """One indented JSON value on stdout; NaN and infinity become strings. FleetError if stdout
    takes no more, as a file on a full disk.
    """
    with _printing():
        click.echo(json.dumps(json.loads(encode(value)), indent=2, ensure_ascii=False))


def print_result(
    value: Json, page: RenderableType, *, as_json: bool, then: tuple[str, str] | None = None
) -> None:
    """Print the value with --json; else the page, with a command to try next, and why.

    A page has colours on a terminal and is plain text elsewhere. FleetError as of `print_json`.
    """
    if as_json:
        print_json(value)
        return

    console = Console(highlight=False, emoji=False, width=columns())
    with _printing():
        console.print(_Printable(page), crop=False)
    if then is not None:
        advise(*then)


@contextmanager
def _printing() -> Iterator[None]:
    """Text goes to stdout; that its reader is gone is no error, see `cli.streams`."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        _forget_stdout()
        raise FleetError(f"stdout cannot be written: {error.strerror}") from error


def _forget_stdout() -> None:
    """Let what could not be written go nowhere, or it is tried, and refused, again at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)


@dataclass(frozen=True, slots=True)
class _Printable:
    """A page in which no text of a plan or of a node can steer the terminal."""

    page: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:

        for segment in console.render(self.page, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def columns() -> int:
    """Width of a page: COLUMNS, else that of a terminal at hand, even if stdout is a pipe."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return max(int(asked), _LEAST_COLUMNS)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        with suppress(ValueError, OSError):  # closed, or no terminal
            if stream and (width := os.get_terminal_size(stream.fileno()).columns):
                return max(width, _LEAST_COLUMNS)
    return _PLAIN_COLUMNS


def table(*titles: str, wraps: Collection[str] = (), right: Collection[str] = ()) -> Table:
    """An empty table with these columns; only those in `wraps` may break their lines, words too,
    and those in `right` are numbers.
    """
    empty = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in titles:
        wraps_here = title in wraps
        overflow: Literal["fold", "ellipsis"] = "fold" if wraps_here else "ellipsis"
        justify: Literal["right", "left"] = "right" if title in right else "left"
        empty.add_column(title, no_wrap=not wraps_here, overflow=overflow, justify=justify)
    return empty


def fitting(titles: Sequence[str], rows: Sequence[Sequence[RenderableType]],
            *, spare: Sequence[str], right: Collection[str] = ()) -> Table:  # fmt: skip
    """A table of whole cells; where they are too wide, columns in `spare` go, the last one first.

    If it is too wide still, the cells of the first column break: their text is never cut.
    """
    console = Console(emoji=False, width=columns())
    for kept in range(len(spare), -1, -1):
        shown = [at for at, title in enumerate(titles) if title not in spare[kept:]]
        made = table(*(titles[at] for at in shown), right=right)
        for row in rows:
            made.add_row(*(row[at] for at in shown))
        wide = console.options.update(max_width=10_000)
        if Measurement.get(console, wide, made).maximum <= console.width:
            return made
    for column in made.columns:
        column.overflow, column.no_wrap = "fold", False
    return made


def paired(rows: Iterable[tuple[Text, str | Text]]) -> Table:
    """Names, each beside its text; long text continues in its own column."""
    made = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(2):
        made.add_column(overflow="fold")
    for name, text in rows:
        made.add_row(name, Text(text) if isinstance(text, str) else text)
    return made


def grouped(groups: Mapping[str, Sequence[tuple[str, str | Text]]]) -> Table:
    """Names beside their texts, below the titles of their groups; one without rows is left out."""
    rows: list[tuple[Text, str | Text]] = []
    for title, found in groups.items():
        if found:
            rows += [(Text(), ""), (Text(title, style="bold"), "")]
            rows += [(Text(f"  {name}"), text) for name, text in found]
    return paired([*rows, (Text(), "")])


def advise(command: str, why: str) -> None:
    """The next thing to try, on stderr."""
    click.echo(f"next: {command}   {why}", err=True)


def progress(name: str, noun: str = "simulation") -> Callable[[int, int], None]:
    """Says on stderr how much of a calculation is done and how long the rest takes, a line for each
    tenth. It is told how many are done and how many there are; `noun`: what is counted.
    """
    since_s = time.monotonic()

    def say(done: int, every: int) -> None:
        if not done:
            click.echo(f"{name}: {plural(every, noun)} to do", err=True)
        elif 10 * done // every > 10 * (done - 1) // every:
            left_s = (time.monotonic() - since_s) * (every - done) / done
            left = f", about {show_duration(max(1.0, round(left_s)))} left" if done < every else ""
            click.echo(f"{name}: {100 * done // every} %{left}", err=True)

    return say


def warn(text: str) -> None:
    """Print to stderr what will go wrong, or is likely a mistake."""
    click.echo(f"warning: {text}", err=True)


def named(run: "RunDirectory", out: Path) -> str:
    """Argument by which a command finds a run: its short id if it lies below the default --out."""
    is_found = out == _OUT and run.path.resolve().parent.parent == out.resolve()
    return run.short_id if is_found else str(shown_path(run.path))


def typed(run: "RunDirectory", out: Path) -> str:
    """`named`, as a shell takes it: for a command that is shown to be typed."""
    return shlex.quote(named(run, out))


def typed_path(path: Path) -> str:
    """`shown_path`, as a shell takes it: for a command that is shown to be typed."""
    return shlex.quote(str(shown_path(path)))
