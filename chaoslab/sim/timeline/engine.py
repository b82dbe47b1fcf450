"""Engine: the timeline that a training has over links of one bandwidth."""

from dataclasses import dataclass, replace

from chaoslab.core.errors import PlanError
from chaoslab.core.units import BytesPerSecond
from chaoslab.sim.timeline import ring, star
from chaoslab.sim.timeline.training import Method, Result, Training


def simulate(training: Training, rate_bytes_per_s: float) -> Result:
    """What it gives over links of that rate, each way."""
    simulated = star.simulate if training.through_syncer else ring.simulate
    return simulated(training, rate_bytes_per_s)


def speed_up(training: Training, rate_bytes_per_s: float) -> float:
    """How many times faster its steps are than with synchronisation in every step.

    The other training sends 16 bits for each parameter in a ring, over the same links.
    """
    every = replace(
        training, method=Method.DATA_PARALLEL, bits=16.0, overlap=0, fragments=0, syncer=False
    )
    return simulate(every, rate_bytes_per_s).step_s / simulate(training, rate_bytes_per_s).step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Links(Training):
    """A training over links of a given bandwidth."""

    rate_bytes_per_s: BytesPerSecond
    """Bandwidth of the link of each data centre, each way."""

    def __post_init__(self) -> None:
        Training.__post_init__(self)
        if self.rate_bytes_per_s <= 0:
            raise PlanError("must be above 0", key="rate")
