"""A distribution without chance, for tests that know when an outage ends."""

from dataclasses import dataclass

from chaoslab.sim.distributions import Uniform


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Always the same time."""

    mean_s: float

    def draw(self, rng: Uniform) -> float:  # the protocol's signature
        """The time, without a draw."""
        return self.mean_s

    def survival(self, time_s: float) -> float:
        """1 before the time, 0 from it on."""
        return 1.0 if time_s < self.mean_s else 0.0
