"""The fleet that does nothing."""

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts.fleet_kit import FleetKit, Stage
from tests.contracts.no_fleet import NoFleet
from tests.virtual_clock import VirtualClock


class TestNoFleet(FleetKit):
    @pytest.fixture(params=[WallClock, VirtualClock])
    def stage(self, request: pytest.FixtureRequest) -> Stage:
        clock = request.param()
        return Stage(fleet=NoFleet(clock), clock=clock)

    @pytest.fixture
    def spec(self) -> NodeSpec:
        return NodeSpec(name="learner-0", role=Role.LEARNER, command=("true",))
