"""A fleet on slices: the contract of all fleets, and slices that are broken and repaired."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.slices.repair import RepairLimits
from chaoslab.fleet.tpu.lifecycle import bring_up
from chaoslab.fleet.tpu.provider import TpuProvider
from tests.contracts.fleet_kit import LivingFleetKit, Stage
from tests.fake_tpu import FakeCloud, Times
from tests.fleet.local_slices import LocalSlices, SliceFactory, cloud_of, provided
from tests.fleet.local_stage import Remembered
from tests.fleet.test_local import learner

pytestmark = [pytest.mark.deep]
TAKING = Times(queue_s=0.1, create_s=0.1, delete_s=0.1, stop_s=0.1, maintenance_s=0.5)


@pytest.fixture
def fake() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
def provider(fake: FakeCloud) -> Iterator[TpuProvider]:
    with provided(fake, cloud_of) as provider:
        bring_up(provider, within_s=10.0)
        fake.times = TAKING
        yield provider


@pytest.fixture
def stage(
    fake: FakeCloud, provider: TpuProvider, tmp_path: Path, undo_log: Remembered
) -> Iterator[Stage]:
    clock = WallClock()
    factory = SliceFactory(fake=fake, provider=lambda: provider, repair=RepairLimits(failures=0))
    with factory(tmp_path, clock, undo_log=undo_log, node_links=None) as fleet:
        fleet.poll(clock.now_s() + 1.0)  # what the provider says at the beginning
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


class TestLocalSlices(LivingFleetKit):
    """The kit: a slice that is up changes nothing."""


def fleet_of(stage: Stage) -> LocalSlices:
    assert isinstance(stage.fleet, LocalSlices)
    return stage.fleet


def told(stage: Stage, kind: Kind, name: str) -> list[Observation]:
    """All that was seen of this kind of a node; waits for the first."""

    def found() -> list[Observation]:
        return [one for one in stage.seen if (one.kind, one.source) == (kind, name)]

    if not found():
        stage.until(kind, node=name)
    return found()


def repaired(stage: Stage, name: str = "learner-0") -> list[Json]:
    """The stages of a repair until its end."""
    stages: list[Json] = []
    while not {"back", "given_up"} & set(stages):
        stage.poll()
        stages = [one.data["stage"] for one in told(stage, Kind.REPAIR_MOVED, name)]
    return stages


@pytest.mark.parametrize("verb", [
    pytest.param("delete_slice", marks=pytest.mark.gate), "take_slice", "stop_slice",
    "maintain_slice",
])  # fmt: skip
def test_a_node_whose_slice_is_lost_ends_and_is_back_when_it_is_repaired(
    stage: Stage, spec: NodeSpec, verb: str
) -> None:
    fleet = fleet_of(stage)
    fleet.start(spec)
    fleet.start(learner("learner-1"))
    stage.until(Kind.LEARNER_STEP, node=spec.name)
    getattr(fleet, verb)(spec.name)
    told(stage, Kind.NODE_EXITED, spec.name)
    told(stage, Kind.PROVIDER_REPORTED, spec.name)
    assert not fleet.restart(spec.name).is_alive, "there is nothing to start it on"
    fleet.repair_slice(spec.name)
    assert repaired(stage)[-1] == "back"
    assert fleet.nodes[spec.name].incarnation == 2
    assert fleet.nodes["learner-1"].incarnation == 1


@pytest.mark.gate
def test_a_preemption_that_nobody_asked_for_is_repaired_at_once(
    stage: Stage, spec: NodeSpec, fake: FakeCloud
) -> None:
    fleet = fleet_of(stage)
    fleet.start(spec)
    stage.until(Kind.LEARNER_STEP, node=spec.name)
    (taken,) = (one for one in fake.ids if spec.name in one)
    fake.preempt(taken)
    assert repaired(stage)[-1] == "back"
    assert taken not in fake.ids


def test_a_node_that_ended_although_its_slice_was_left_alone_is_started_by_the_heal(
    stage: Stage, spec: NodeSpec, fake: FakeCloud
) -> None:
    fleet = fleet_of(stage)
    fleet.start(spec)
    stage.until(Kind.LEARNER_STEP, node=spec.name)
    fleet.signal(spec.name, signal="SIGTERM")
    told(stage, Kind.NODE_EXITED, spec.name)
    before = list(fake.ids)
    fleet.repair_slice(spec.name)
    assert (fleet.nodes[spec.name].incarnation, fleet.nodes[spec.name].is_alive) == (2, True)
    fleet.repair_slice(spec.name)
    assert fleet.nodes[spec.name].incarnation == 2
    fleet.__exit__(None, None, None)
    assert fake.ids == before, "also after leaving"
