"""A fleet that writes down an undo for a folder that is not the run's, as if it had mounted it."""

from typing import Self

from chaoslab.fleet.local.fleet import LocalFleet


class ForeignUndo(LocalFleet):
    """Owes to somebody else's folder. Nothing is mounted there, so obeying it does no harm."""

    def __enter__(self) -> Self:
        """With the foreign entry in the run's own book."""
        folder = self._place.run_directory.parents[1] / "somebody-elses"
        self._place.undo_log.open("unmount", node="learner-0", folder=str(folder))
        return super().__enter__()


FLEET = ForeignUndo
