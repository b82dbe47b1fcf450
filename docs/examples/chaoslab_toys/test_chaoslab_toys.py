"""The contract kits of chaoslab on what this package brings."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaoslab_toys import Nap, Nice, Rounds

from chaoslab.core.clock import WallClock
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.settings import FleetRequest
from chaoslab.undo.base import NoUndoLog
from tests.contracts import node_program
from tests.contracts.check_kit import CheckKit
from tests.contracts.fault_kit import FaultKit
from tests.contracts.fleet_kit import LivingFleetKit, Stage


class TestNap(FaultKit):
    """The kit of faults."""

    @pytest.fixture
    def fault(self) -> Nap:
        return Nap()


class TestRounds(CheckKit):
    """The kit of checks."""

    @pytest.fixture
    def check(self) -> Rounds:
        return Rounds()


class TestNice(LivingFleetKit):
    """The kit of fleets in which something runs."""

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[Stage]:
        clock = WallClock()
        fleets = Nice(niceness=3).factory(FleetRequest())
        links = NodeLinks(clock=clock)
        with fleets(tmp_path, clock, undo_log=NoUndoLog(), node_links=links) as fleet:
            yield Stage(fleet=fleet, clock=clock)

    @pytest.fixture
    def spec(self) -> NodeSpec:
        command = (sys.executable, "-S", node_program.__file__, "--name", "learner-0")
        return NodeSpec(
            name="learner-0",
            role=Role.LEARNER,
            command=(*command, "--incarnation", "{incarnation}"),
            labels={"region": "eu"},
        )
