"""A simulated fleet, with a clock of its own."""

from collections.abc import Iterator

import pytest

from chaoslab.sim.clock import SimClock
from chaoslab.sim.costs import Costs
from chaoslab.sim.fleet import SimFleet
from tests.contracts.fleet_kit import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = SimClock()
    with SimFleet(clock, costs=Costs(), seed=7) as fleet:
        yield Stage(fleet=fleet, clock=clock)
