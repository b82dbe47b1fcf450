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

    def test_nothing_is_ever_news(self, stage: Stage, spec: NodeSpec) -> None:
        stage.fleet.start(spec)
        stage.fleet.kill(spec.name)
        assert not stage.poll(0.05)
        assert stage.fleet.probe(spec.name).data["state"] == "gone"

    def test_virtual_time_moves_exactly_as_far_as_asked(self) -> None:
        clock = VirtualClock()
        NoFleet(clock).poll(3600.0)
        assert clock.now_s() == 3600.0
