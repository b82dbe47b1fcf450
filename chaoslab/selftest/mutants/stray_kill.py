"""A kill that hits somebody else: the signal for the victim goes to its neighbour."""

from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM


class StrayKill(LocalFleet):
    """Aims beside the victim, as long as the neighbour lives."""

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:
        """At the neighbour in its place."""
        if signal == "SIGKILL" and self.nodes[OTHER_VICTIM].is_alive:
            names = tuple(OTHER_VICTIM if name == VICTIM else name for name in names)
        super().kill(*names, signal=signal)


FLEET = StrayKill
