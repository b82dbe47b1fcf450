"""Learners of two hosts in a real cluster: their pods start, end and come back as one node."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.base import Hosts, NodeSpec
from tests.cluster import Cluster, small_fleet
from tests.contracts.fleet_kit import Stage, wait_until
from tests.engine import learner
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep, pytest.mark.kubernetes]


@pytest.fixture
def stage(tmp_path: Path, here: Cluster, undo_log: Remembered) -> Iterator[Stage]:
    clock = WallClock()
    with small_fleet(tmp_path, clock, here, undo_log) as fleet:
        yield Stage(fleet=fleet, clock=clock)


def of_two(name: str) -> NodeSpec:
    """Both of its hosts step, and print their number and where they meet."""
    hosts = Hosts(count=2, flags=("--say", "{host}", "--say", "{meeting}"), secret="SECRET")
    return replace(learner(name), hosts=hosts)


@pytest.fixture
def spec() -> NodeSpec:
    return of_two("learner-0")


def lost(stage: Stage) -> list[tuple[object, object]]:
    """Hosts that were lost, and by which signal."""
    return [
        (one.data["host"], one.data["signal"]) for one in stage.seen if one.kind is Kind.HOST_LOST
    ]


def first_lines(folder: Path) -> list[str]:
    """Of what a host printed, two; empty before there are so many."""
    lines = (folder / "stdout.log").read_text().splitlines()
    return lines[:2] if len(lines) > 2 else []


@pytest.mark.gate
def test_a_host_that_is_killed_takes_the_learner_down_and_it_comes_back(
    stage: Stage, spec: NodeSpec, tmp_path: Path
) -> None:
    stage.fleet.start(spec)
    stage.until_step_of(1)
    assert stage.kinds[:3] == [Kind.NODE_STARTED, Kind.HOST_STARTED, Kind.HOST_STARTED]
    home = tmp_path / "nodes" / spec.name / "1"
    folders = (home, home / "host-1")
    wait_until(lambda: stage.poll(0.1) is not None and all(map(first_lines, folders)))
    (own, at_own), (other, at_service) = map(first_lines, folders)
    assert (own, other) == ("0", "1")
    assert at_own != at_service
    assert at_service == f"{stage.fleet._objects.meeting(spec.name)}"  # type: ignore[attr-defined]
    stage.fleet.kill_host(spec.name, -1)  # type: ignore[attr-defined]
    exited = stage.until(Kind.NODE_EXITED)
    assert (exited.data["signal"], exited.payload.sent) == ("SIGKILL", ("SIGKILL",))
    assert lost(stage) == [(1, "SIGKILL")]
    stage.fleet.restart(spec.name)
    stage.until_step_of(2)
    assert stage.lives == [
        (Kind.NODE_STARTED, 1), (Kind.NODE_EXITED, 1), (Kind.NODE_STARTED, 2),
    ]  # fmt: skip


def test_faults_on_machines_are_for_learners_of_one_host(stage: Stage, spec: NodeSpec) -> None:
    stage.fleet.start(spec)
    stage.until_step_of(1)
    with pytest.raises(FleetError, match="learner-0"):
        stage.fleet.beside(spec.name)  # type: ignore[attr-defined]
