"""Markdown of the pages of a game-day: tables whose words stay words, whatever was typed.

"[a](b) <img>" ─► safe ─► the same to read, and no link, no image
head, rows ─► table ─► lines of a Markdown table, every cell made safe
page ─► as_html ─► the same for a browser
"""

import re
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from chaoslab.core.terminal import one_line

BLANK = "____"
"""A place to be filled in by hand."""
_MANY_COLUMNS = 4
_MARKS = re.compile(r"([\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|^[#+=-])")
"""Underscores only at the ends of words, other marks only where they begin a line."""
_NUMBERED = re.compile(r"^(\d+)([.)] )")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def safe(text: str) -> str:
    """Text on one line that cannot become markup or HTML, or end a cell of a table.

    Characters that no screen shows, such as those of escape sequences, are replaced.
    """
    line = one_line(text)
    if line == BLANK:
        return line
    return _NUMBERED.sub(r"\1\\\2", _MARKS.sub(r"\\\1", line.translate(_HTML)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are all made safe."""
    lines = [tuple(map(safe, head)), tuple("---" for _ in head)]
    lines += [tuple(map(safe, row)) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_html(markdown: str) -> str:
    """A page as HTML; what looks like HTML in it is shown as text."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(markdown)
    _name_cells(tokens)
    rendered: str = reader.renderer.render(tokens, reader.options, {})
    return rendered


def _name_cells(tokens: Sequence[Token]) -> None:
    """Give each cell of a table with many columns its head, for screens without room for them."""
    heads: list[str] = []
    names = iter(heads)
    for at, token in enumerate(tokens):
        if token.type == "thead_open":
            heads.clear()
        elif token.type == "th_open":
            heads.append(tokens[at + 1].content)
        elif token.type == "tr_open":
            names = iter(heads)
        elif token.type == "td_open" and len(heads) >= _MANY_COLUMNS:
            token.attrSet("data-name", next(names))


def page(*parts: str) -> str:
    """Headings, paragraphs and tables with an empty line between them; empty ones are left out."""
    return "\n\n".join(filter(None, parts)) + "\n"
