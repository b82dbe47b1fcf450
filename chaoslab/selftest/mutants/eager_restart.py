"""Somebody starts the victims again at once, and so the fault lasts for no time at all."""

from chaoslab.fleet.base import Role
from chaoslab.fleet.local.fleet import LocalFleet


class EagerRestart(LocalFleet):
    """A supervisor that nobody knew of."""

    def kill(self, *names: str, signal: str = "SIGKILL") -> None:
        """And start the killed learners again, unless the run is ending."""
        super().kill(*names, signal=signal)
        for name in names:
            node = self.nodes[name]
            if signal == "SIGKILL" and node.role is Role.LEARNER and node.incarnation == 1:
                super().restart(name)


FLEET = EagerRestart
