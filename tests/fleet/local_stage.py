"""A fleet of processes on a stage, with its undo log in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaoslab.core.clock import WallClock
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.undo.base import NoUndoLog
from tests.contracts.fleet_kit import Stage


class Remembered(NoUndoLog):
    """Obligations in memory."""

    def __init__(self) -> None:
        self.opened: list[dict[str, object]] = []
        self.closed: list[int] = []

    def open(self, do: str, **facts: object) -> int:
        self.opened.append({"do": do, **facts})
        return len(self.opened) - 1

    def close(self, number: int) -> None:
        self.closed.append(number)


@contextmanager
def local_stage(folder: Path, undo_log: Remembered) -> Iterator[Stage]:
    """A fleet that has not started a node; its nodes end with the block."""
    clock = WallClock()
    with LocalFleet(folder, clock, undo_log=undo_log) as fleet:
        yield Stage(fleet=fleet, clock=clock)
