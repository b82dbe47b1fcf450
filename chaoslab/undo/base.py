"""Undo log, as fleets and links see it: where a run writes down how to undo what it will do.

    UndoLog.open(verb, facts) ─► the action ─► … ─► close(number)

The durable log is `log.UndoLogFile`.
"""

from typing import Protocol

from chaoslab.core.events import Json


class UndoLog(Protocol):
    """What must be undone should the harness die; `log.UndoLogFile` is the durable one."""

    def open(self, do: str, **facts: Json) -> int:
        """Write down the undo verb `do` and all it needs, durably, BEFORE the action."""
        ...

    def close(self, number: int) -> None:
        """The action is undone, and that was verified."""
        ...

    @property
    def due_in_s(self) -> float | None:
        """In how long what is opened now is due; None: with the end of the run."""
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
    """What one thing owes now, by verb and by `whose`: which injection, where several may owe."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._owed: dict[tuple[str, str], int] = {}

    def owe(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write it down before it is done; FleetError when the disk refuses."""
        if (do, whose) not in self._owed:
            self._owed[do, whose] = self._log.open(do, **facts)

    @property
    def is_owing(self) -> bool:
        """Whether anything is still to be undone."""
        return bool(self._owed)

    def owes(self, do: str, whose: str = "") -> bool:
        """Whether this is still to be undone."""
        return (do, whose) in self._owed

    def hand_over(self, to: "PendingUndos", do: str, whose: str = "") -> None:
        """From now on another thing owes it."""
        number = self._owed.pop((do, whose), None)
        if number is not None:
            to.take_over(number, do, whose)

    def take_over(self, number: int, do: str, whose: str = "") -> None:
        """Owe what was written down for another thing."""
        self._owed[do, whose] = number

    def settle(self, do: str, whose: str = "") -> None:
        """It is undone, and that was verified; nothing if it was not owed."""
        number = self._owed.pop((do, whose), None)
        if number is not None:
            self._log.close(number)

    def settle_all(self) -> None:
        """What owed it is gone, and all of it with that."""
        for do, whose in tuple(self._owed):
            self.settle(do, whose)
