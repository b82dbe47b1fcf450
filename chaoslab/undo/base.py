"""Undo log, as fleets and links see it: where a run writes down how to undo what it will do.

    UndoLog.open(verb, facts) ─► the action ─► … ─► close(number)

The durable log is `log.UndoLogFile`.
"""

from typing import Protocol

from chaoslab.core.events import Json


class UndoLog(Protocol):
    """Entries to undo if the harness dies; `log.UndoLogFile` is the durable implementation."""

    def open(self, do: str, **facts: Json) -> int:
        """Write down the undo verb `do` and all it needs, durably, BEFORE the action."""
        ...

    def close(self, number: int) -> None:
        """The action is undone, and that was verified."""
        ...

    @property
    def due_in_s(self) -> float | None:
        """Time until entries that are opened now are due; None: with the end of the run."""
        ...


class NoUndoLog:
    """The log that remembers nothing: for fleets that leave nothing behind."""

    def open(self, do: str, **facts: Json) -> int:  # noqa: ARG002 - the protocol's signature
        """Forget it."""
        return 0

    def close(self, number: int) -> None:
        """Nothing was kept."""

    @property
    def due_in_s(self) -> float | None:
        """Never."""
        return None


class PendingUndos:
    """Open entries of one node, link or file, by verb and by `whose`: its injection, if any."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._open: dict[tuple[str, str], int] = {}

    def open(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write it down before it is done, once; FleetError when the disk refuses."""
        if (do, whose) not in self._open:
            self._open[do, whose] = self._log.open(do, **facts)

    @property
    def has_open(self) -> bool:
        """Whether any entry is open."""
        return bool(self._open)

    def is_open(self, do: str, whose: str = "") -> bool:
        """Whether this entry is open."""
        return (do, whose) in self._open

    def hand_over(self, to: "PendingUndos", do: str, whose: str = "") -> None:
        """Leave an entry, if it is open, to another node, link or file."""
        number = self._open.pop((do, whose), None)
        if number is not None:
            to.take_over(number, do, whose)

    def take_over(self, number: int, do: str, whose: str = "") -> None:
        """Close this entry, too, in future: it was opened by another."""
        self._open[do, whose] = number

    def close(self, do: str, whose: str = "") -> None:
        """Close an entry whose undo was verified; nothing if it is not open."""
        number = self._open.pop((do, whose), None)
        if number is not None:
            self._log.close(number)

    def close_all(self) -> None:
        """All is gone with what the entries were about."""
        for do, whose in tuple(self._open):
            self.close(do, whose)
