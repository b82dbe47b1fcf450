"""Markdown of the pages of a game-day: tables whose words stay words, whatever was typed.

"[a](b) <img>" ─► safe ─► the same to read, and no link, no image
head, rows ─► table ─► lines of a Markdown table, every cell made safe
page ─► as_html ─► the same for a browser
"""

import re
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt

from chaoslab.core.terminal import one_line

BLANK = "____"
"""A place to be filled in by hand."""
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
    rendered: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    return rendered


def page(*parts: str) -> str:
    """Headings, paragraphs and tables with an empty line between them; empty ones are left out."""
    return "\n\n".join(filter(None, parts)) + "\n"
