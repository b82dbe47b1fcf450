"""Nodes as containers: the contract, and what only containers can do, or do wrong."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.clock import WallClock
from chaoslab.fleet.base import NodeSpec, Role
from tests.contracts import node_program
from tests.contracts.fleet_kit import LivingFleetKit, Stage
from tests.engine import Engine, engine_or_skip, small_fleet
from tests.fleet.test_local import Remembered

pytestmark = [pytest.mark.slow, pytest.mark.docker]


@pytest.fixture
def engine() -> Engine:
    return engine_or_skip()


@pytest.fixture
def obligations() -> Remembered:
    return Remembered()


@pytest.fixture
def stage(tmp_path: Path, engine: Engine, obligations: Remembered) -> Iterator[Stage]:
    clock = WallClock()
    with small_fleet(tmp_path, clock, engine, obligations) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


def learner(name: str, *flags: str) -> NodeSpec:
    """The stand-in for a learner; its source travels on the command line."""
    source = Path(node_program.__file__).read_text(encoding="utf-8")
    command = ("python3", "-S", "-c", source, "--name", name, "--incarnation", "{incarnation}")
    return NodeSpec(
        name=name, role=Role.LEARNER, command=(*command, *flags), labels={"region": "eu"}
    )


class TestDockerFleet(LivingFleetKit):
    """The kit."""
