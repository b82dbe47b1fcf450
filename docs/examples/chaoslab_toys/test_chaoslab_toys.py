"""The contract kits of chaoslab on what this package brings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chaoslab_toys import Nap, Nice, Rounds

from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.settings import FleetRequest
from tests.contracts.check_kit import CheckKit
from tests.contracts.fault_kit import FaultKit
from tests.contracts.fleet_kit import LivingFleetKit, Stage, learner, staged
from tests.contracts.harness_kit import HarnessKit


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
        with staged(Nice(niceness=3).factory(FleetRequest()), tmp_path) as stage:
            yield stage

    @pytest.fixture
    def spec(self) -> NodeSpec:
        return learner("learner-0")


class TestNiceHarness(HarnessKit):
    """The kit of what a fleet leaves on this machine."""

    @pytest.fixture
    def kind(self) -> str:
        return "nice"
