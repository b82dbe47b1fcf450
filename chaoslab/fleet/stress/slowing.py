"""Slowness of a node, for every fleet: a share of its CPU time, and rests after its steps.

CpuShare   cores now = cores when calm / factor * correction; a fleet says how it holds a node
StepRest   the learner rests after each step, by its test hook
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.payloads import StressCounts
from chaoslab.fleet.stress.registry import StressDriver
from chaoslab.fleet.stressors import Slowness

STEP_HOOK = "the learner's step hook"
_CORRECTIONS = (4.0, 0.25)
"""Most and least: beyond, something else is wrong with the node."""


class CpuShare(StressDriver):
    """A share of the CPU time that the node used before, corrected by its step times.

    Of what it used while it was calm: a node that gets a third of a core among its neighbours
    notices nothing of a limit of one half.
    """

    def __init__(self, name: str, calm_cores: float, stressor: Slowness) -> None:
        """FleetError if the node used no CPU time that could be cut."""
        if calm_cores <= 0:
            raise FleetError(f"{name} used no CPU time that could be cut")
        self._calm_cores = calm_cores
        self._stressor, self._correction = stressor, 1.0

    @property
    def _cores(self) -> float:
        return self._calm_cores / self._stressor.factor * self._correction

    @abstractmethod
    def _apply(self) -> None:
        """Hold the node to `_cores` from now on."""

    def set(self, slowness: Slowness) -> None:
        """Another factor; what was learned of the node still holds."""
        self._stressor = slowness
        self._apply()

    def steer(self, correction: float) -> None:
        """Correct the share: a learner does not only step, so a share of its time is not the same
        share of its pace.
        """
        most, least = _CORRECTIONS
        self._correction = max(least, min(most, self._correction * correction))
        self._apply()

    def counts(self) -> StressCounts:
        return {"cores": round(self._cores, 4)}


class Resting(Protocol):
    """An incarnation of a learner that can be told to rest."""

    @property
    def has_exited(self) -> bool:
        """Whether it ended, noticed or not."""
        ...

    def tell(self, facts: Mapping[str, Json]) -> None:
        """Write one line to its standard input; FleetError if no process reads there."""
        ...


class StepRest(StressDriver):
    """Rests after each step, by the learner's own step hook."""

    mechanism = STEP_HOOK

    def __init__(self, life: Resting, stressor: Slowness) -> None:
        self._life, self._stressor = life, stressor
        self._has_begun = False

    def begin(self) -> None:
        self.set(self._stressor)
        self._has_begun = True

    def set(self, slowness: Slowness) -> None:
        self._life.tell({"do": "slow", "factor": slowness.factor, "for_s": slowness.for_s})

    def end(self) -> None:
        """No more rests; a node that exits needs none."""
        if not self._has_begun or self._life.has_exited:
            return
        try:
            self._life.tell({"do": "slow"})
        except FleetError:
            if not self._life.has_exited:
                raise
