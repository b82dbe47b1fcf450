"""A fleet that leaves a process of the victim behind, and says that all of them are gone."""

from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.selftest.mutants import VICTIM


class MessyFleet(LocalFleet):
    """Ends everybody but the victim."""

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:
        """Not the victim."""
        super().kill(*(name for name in names if name != VICTIM), signal=signal)

    def _end_all(self) -> list[int]:
        """Nobody, and nothing remains; what is left is for the janitor."""
        return []


FLEET = MessyFleet
