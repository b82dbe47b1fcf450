"""A fleet on slices, which are broken and repaired: agents on hosts that go with their slices.

TpuVmFleet ─┬─ TpuProvider ── gRPC ──► FakeCloud ── gone(slice) ──┐
            └─ agents, reached directly ◄── killed without a word ┘
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Json, Kind, Observation
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.protocols import SliceAct
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.host import Runs
from chaoslab.fleet.remote.protocol.reach import HostAddress, Reach
from chaoslab.fleet.remote.slices import RepairLimits
from chaoslab.fleet.tpu.fleet import TpuVmFleet
from chaoslab.fleet.tpu.lifecycle import bring_up
from chaoslab.fleet.tpu.provider import TpuProvider
from tests.contracts.fleet_kit import PATIENCE_S, LivingFleetKit, Stage
from tests.fake_tpu import FakeCloud, Times
from tests.fleet.direct_hosts import DirectReach, ThisPython, home_folder
from tests.fleet.local_stage import Remembered
from tests.fleet.test_local import learner
from tests.fleet.test_remote import ground_of
from tests.fleet.tpu.conftest import provided

pytestmark = [pytest.mark.deep]
TAKING = Times(queue_s=0.1, create_s=0.1, delete_s=0.1, stop_s=0.1, maintenance_s=5.0)
"""Maintenance is asked for every 2 s: what is over sooner may not be seen."""


class Machines:
    """A host for each slice, by its name."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._hosts = stack, dict[str, DirectReach]()

    def of(self, slice_id: str) -> DirectReach:
        if slice_id not in self._hosts:
            home = self._stack.enter_context(home_folder())
            self._hosts[slice_id] = DirectReach(slice_id, home)
        return self._hosts[slice_id]

    def lose(self, slice_id: str) -> None:
        """All that runs there is gone at once, as with a power cut."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.of(slice_id).home):
                    process.kill()

    async def ready(self, found: HostAddress) -> tuple[Reach, Runs]:
        return self.of(found.address), ThisPython()


@pytest.fixture
def fake() -> FakeCloud:
    return FakeCloud()


@pytest.fixture
def provider(fake: FakeCloud) -> Iterator[TpuProvider]:
    with provided(fake, RepairLimits(failures=0)) as provider:
        yield provider


@pytest.fixture
def stage(
    fake: FakeCloud, provider: TpuProvider, tmp_path: Path, undo_log: Remembered
) -> Iterator[Stage]:
    clock = WallClock()
    with ExitStack() as stack:
        machines = Machines(stack)
        fake.addresses, fake.gone = lambda slice_id, _: machines.of(slice_id).name, machines.lose
        bring_up(provider, within_s=10.0)
        fake.times = TAKING
        ground = ground_of([machines.of(name) for name in fake.ids], Terms(lost_s=1.0))
        ground.make_ready = machines.ready
        fleet = TpuVmFleet(
            Place(run_directory=tmp_path, clock=clock, undo_log=undo_log), ground, kind="tpu-vm"
        )
        fleet.look_s = 0.1
        fleet.use_slices(provider, no_delivery)
        stack.enter_context(fleet)
        while not fleet.poll(clock.now_s() + 1.0):
            """What the provider says at the beginning."""
        yield Stage(fleet=fleet, clock=clock)


async def no_delivery(name: str, hosts: Sequence[HostAddress]) -> None:
    """The hosts have all they need."""


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


class TestTpuVmFleet(LivingFleetKit):
    """The kit: a slice that is up changes nothing."""


def fleet_of(stage: Stage) -> TpuVmFleet:
    assert isinstance(stage.fleet, TpuVmFleet)
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
    deadline = time.monotonic() + PATIENCE_S
    while not {"back", "given_up"} & set(stages):
        assert time.monotonic() < deadline, stages
        stage.poll()
        stages = [one.data["stage"] for one in told(stage, Kind.REPAIR_MOVED, name)]
    return stages


@pytest.mark.parametrize("act", [
    pytest.param(SliceAct.DELETE, marks=pytest.mark.gate), SliceAct.TAKE, SliceAct.STOP,
    SliceAct.MAINTENANCE,
])  # fmt: skip
def test_a_node_whose_slice_is_lost_ends_and_is_back_when_it_is_repaired(
    stage: Stage, spec: NodeSpec, act: SliceAct
) -> None:
    fleet = fleet_of(stage)
    fleet.start(spec)
    fleet.start(learner("learner-1"))
    stage.until(Kind.LEARNER_STEP, node=spec.name)
    fleet.act_on_slices(act, spec.name)
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
