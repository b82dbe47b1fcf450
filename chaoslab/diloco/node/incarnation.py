"""Incarnation of a node's process: a number that grows with each start, kept in its folder."""

from pathlib import Path

from chaoslab.diloco.node.files import atomic_write, make_folder


def next_incarnation(directory: Path, asked: int | None) -> int:
    """Incarnation of this process: the one asked for, else one more than the last one here."""
    file = directory / "incarnation"
    known = int(file.read_text()) if file.exists() else 0
    incarnation = known + 1 if asked is None else asked
    make_folder(directory, durable=True)
    with atomic_write(file, durable=True) as written:
        written.append(str(incarnation).encode())
    return incarnation
