"""A kill that kills nobody: the fleet takes the order, and no signal is sent."""

from chaoslab.fleet.base import Role
from chaoslab.fleet.local.fleet import LocalFleet


class IdleKill(LocalFleet):
    """Learners outlive every SIGKILL."""

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:
        """Only for whoever is no learner, or when another signal is meant."""
        if signal == "SIGKILL":
            names = tuple(n for n in names if self.nodes[n].role is not Role.LEARNER)
        super().kill(*names, signal=signal)


FLEET = IdleKill
