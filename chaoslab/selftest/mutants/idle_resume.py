"""A resume that does nothing: the fleet says that a stopped victim goes on, and sends no signal."""

from chaoslab.fleet.local.fleet import LocalFleet


class IdleResume(LocalFleet):
    """Whoever is stopped stays stopped."""

    def resume(self, name: str) -> None:
        """Nothing; the node is taken for going on, and nothing is owed for it any more."""
        life = self._lives[name]
        life.is_paused = False
        life.settle("resume_process")


FLEET = IdleResume
