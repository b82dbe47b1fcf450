"""Text of plans, hosts and other programs on its way to a terminal, which it must not steer, or to
a message, which it must not fill.
"""

import os
from pathlib import Path
from typing import Final

_END_BYTES: Final = 16_384
_LINES: Final = 5
_COLUMNS_MOST: Final = 200
_EVENT: Final = '{"kind":'
"""Begin of a line that is no text, but an event of a node."""


def harmless(text: str) -> str:
    """The text with a replacement character for each sign that a terminal would obey."""
    return "".join(s if s.isprintable() or s == "\n" else "\N{REPLACEMENT CHARACTER}" for s in text)


def one_line(text: str) -> str:
    """The same as one line, for logs: programs that read one obey the beginnings of its lines."""
    return harmless(" ".join(text.split()))


def last_lines(printed: str) -> str:
    """The end of what a program printed, for a message: its last lines that have a letter or a
    digit and are no events, each of at most 200 characters.
    """
    lines = (line.rstrip() for line in printed.splitlines() if not line.startswith(_EVENT))
    spoken = [line for line in lines if any(map(str.isalnum, line))]
    return "\n".join(
        line if len(line) <= _COLUMNS_MOST else f"{line[: _COLUMNS_MOST - 1]}…"
        for line in spoken[-_LINES:]
    )


def read_end(log: Path) -> str:
    """The last 16 KiB of a log. OSError if it cannot be read."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
        return file.read().decode(errors="replace")


def ends_with(log: Path) -> str:
    """Clause of a message that names a log and its `last_lines`; empty if it has none."""
    lines = last_lines(read_end(log))
    return f"; {shown_path(log)} ends with:\n{lines}" if lines else ""


def shown_path(path: Path) -> Path:
    """A path as short as it can be written from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
