"""The undos that one node or link owes, each at most once, whoever asks for it how often.

owe("resume_process") ─► ObligationLog.open, unless it is owed already
settle("resume_process") ─► close
"""

from chaoslab.events import Json
from chaoslab.fleet.base import ObligationLog


class Debts:
    """What one thing owes now, by verb and by `whose`: which injection, where several may owe."""

    def __init__(self, log: ObligationLog) -> None:
        self._log = log
        self._owed: dict[tuple[str, str], int] = {}

    def owe(self, do: str, whose: str = "", /, **facts: Json) -> None:
        """Write it down before it is done; FleetError when the disk refuses."""
        if (do, whose) not in self._owed:
            self._owed[do, whose] = self._log.open(do, **facts)

    def settle(self, do: str, whose: str = "") -> None:
        """It is undone, and that was verified; nothing if it was not owed."""
        number = self._owed.pop((do, whose), None)
        if number is not None:
            self._log.close(number)

    def settle_all(self) -> None:
        """What owed it is gone, and all of it with that."""
        for do, whose in tuple(self._owed):
            self.settle(do, whose)
