"""Scenario: what is simulated by renewal processes, as one frozen dataclass of settings.

The costs of changes are constants of a study: its author says which of them are fitted and
which have a source.
"""

from dataclasses import dataclass
from enum import StrEnum

from chaoslab.core import units
from chaoslab.core.errors import PlanError
from chaoslab.core.units import Duration
from chaoslab.sim.distributions import ExponentiatedWeibull
from chaoslab.sim.renewal.failure_models import MODELS, REPAIR, FailureModel, Fleet


class Policy(StrEnum):
    """Answer of a training to a failure."""

    RIGID = "rigid"
    """Data parallel: everyone stops until the failed chip is repaired, and restarts."""
    ELASTIC = "elastic"
    """Data parallel: shrinks by the failed slice, and grows again by repaired ones."""
    DECOUPLED = "decoupled"
    """Decoupled DiLoCo: each learner is elastic on its own chips, and none waits for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A training and the failures of its chips."""

    policy: Policy
    """How the training answers a failure. `rigid`: data parallel, everyone stops until the failed
    chip is repaired. `elastic`: data parallel that shrinks by the failed slice and grows again.
    `decoupled`: learners that are each elastic on their own chips, and none waits for another."""
    chips: units.Count
    """Chips of the training, in equal parts for the learners."""
    learners: int = 1
    """Learners; 1 unless the policy is `decoupled`."""
    quorum: int = 1
    """The run advances while at least as many learners train."""
    failures: Fleet = Fleet.ONE_PER_YEAR
    """Failures of the fleet."""
    horizon_s: Duration = 10 * 86400.0
    """Simulated time."""
    change_s: Duration = 16.0
    """Pause of a learner for one change of its slices, from the failure to the next useful step:
    notice, regroup, repeat the interrupted step. A rigid training restarts in the same time."""
    grow_every_s: Duration = 120.0
    """A learner takes repaired slices back at most this often, in time of training."""
    slice_chips: int = 256
    """Chips that leave with a failed one."""
    repair_mean_s: Duration = REPAIR.mean_s
    """Mean time until a failed chip is back, unless its fleet says otherwise."""
    repair_shape: float = REPAIR.shape
    """Shape of that time: an exponentiated Weibull distribution; below 1 its tail is heavy."""
    repair_power: int = REPAIR.power
    """Power of that time: 1 is a Weibull distribution."""

    def __post_init__(self) -> None:
        if self.policy is not Policy.DECOUPLED and self.learners != 1:
            raise PlanError(f"must be 1 with the policy {self.policy}, got {self.learners}",
                            key="learners")  # fmt: skip
        _require(1 <= self.learners <= 10_000, "learners", "1 to 10,000", self.learners)
        bound = self.learners
        _require(1 <= self.quorum <= bound, "quorum", f"1 to {bound}", self.quorum)
        least = self.learners * self.slice_chips
        _require(self.slice_chips >= 1, "slice_chips", "at least 1", self.slice_chips)
        _require(self.chips >= least, "chips", f"at least a slice per learner, {least}", self.chips)
        for key in ("horizon", "change", "grow_every"):
            value = getattr(self, f"{key}_s")
            _require(value > 0, key, "above 0", value)

    @property
    def model(self) -> FailureModel:
        """Failure model of the chips."""
        return MODELS[self.failures]

    @property
    def repair(self) -> ExponentiatedWeibull:
        """Time until a failed chip is back, unless the failure model has its own."""
        return ExponentiatedWeibull(
            mean_s=self.repair_mean_s, shape=self.repair_shape, power=self.repair_power
        )


def _require(is_right: bool, key: str, allowed: str, given: float) -> None:
    if not is_right:
        raise PlanError(f"must be {allowed}, got {given}", key=key)
