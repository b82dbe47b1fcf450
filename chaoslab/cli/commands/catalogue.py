"""Pages of a catalogue: one line for each entry, all of it for the one that is asked for.

chaoslab faults            every one, a line each
chaoslab faults kill       those with `kill` in their names
chaoslab faults oom        all of the only one
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from chaoslab.cli.commands.output import columns
from chaoslab.core.errors import PlanError
from chaoslab.plan.file.document import nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

_T = TypeVar("_T")
_FRAME = 5
"""Cells of a line that are neither name nor sentence."""


def chosen(name: str | None, known: Mapping[str, _T], *, noun: str) -> Mapping[str, _T]:
    """The entry of this name, else all with it in their names; PlanError if there is none."""
    if name is None:
        return known
    found = {full: one for full, one in known.items() if name.casefold() in full.casefold()}
    found = {name: known[name]} if name in known else found
    if not found:
        raise PlanError(nearest(name, known, noun=noun))
    return found


def lines(title: str, entries: Iterable[tuple[str, str]]) -> "RenderableType":
    """A name and a sentence on one line each; the sentence is cut where the page ends."""
    from rich import box  # noqa: PLC0415  # `--help` must not import rich
    from rich.table import Table  # noqa: PLC0415

    entries = list(entries)
    name_cells = max(len(name) for name, _ in entries)
    page = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    page.add_column(title, no_wrap=True)
    page.add_column(
        "what it is", no_wrap=True, overflow="ellipsis", max_width=columns() - name_cells - _FRAME
    )
    for name, sentence in entries:
        page.add_row(name, sentence)
    return page


def details(name: str, sentence: str, facts: Iterable[tuple[str, str]]) -> "RenderableType":
    """All of one entry; facts without text are left out."""
    from rich.console import Group  # noqa: PLC0415  # see above
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for title, text in facts:
        if text:
            table.add_row(title, Text(text))
    return Group(Text.assemble((name, "bold reverse"), f"  {sentence}"), Text(), table)
