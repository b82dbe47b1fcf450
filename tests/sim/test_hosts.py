"""Hosts of simulated learners: one takes all down."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.base import NodeSpec
from chaoslab.plan.model import FaultPlan, Training
from chaoslab.prepare.launch import Launch
from chaoslab.sim.costs import Costs
from chaoslab.sim.fleet import SimFleet
from tests.contracts.fleet_kit import Stage


@pytest.fixture
def spec(tmp_path: Path) -> NodeSpec:
    """A learner of two hosts, which reads test hooks."""
    plan = FaultPlan(name="sim", training=Training(learners=1, quorum=1, hosts=2))
    launch = Launch(plan=plan, snapshots=tmp_path, tokens=tmp_path, node_site=SimFleet.node_site)
    return replace(launch.learners({"learner-0": "syncer.sim:1"})[0], hears=True)


def run(stage: Stage, seconds: float) -> None:
    """Let so much simulated time pass."""
    until_s = stage.clock.now_s() + seconds
    while stage.clock.now_s() < until_s:
        stage.poll(until_s - stage.clock.now_s())


@pytest.fixture
def fleet(stage: Stage, spec: NodeSpec) -> SimFleet:
    """In which the learner trains."""
    assert isinstance(stage.fleet, SimFleet)
    stage.fleet.start(spec)
    run(stage, 1.0)
    return stage.fleet


def test_each_host_of_a_learner_is_told_and_counts_as_devices(
    stage: Stage, fleet: SimFleet
) -> None:
    hosts = [one.data["host"] for one in stage.seen if one.kind is Kind.HOST_STARTED]
    assert hosts == [0, 1]
    started = next(one for one in stage.seen if one.kind is Kind.LEARNER_STARTED)
    assert started.data["devices"] == 2


@pytest.mark.parametrize(("host", "lost"), [(0, 0), (1, 1), (-1, 1)])
def test_a_learner_ends_with_the_host_that_is_killed(
    stage: Stage, fleet: SimFleet, host: int, lost: int
) -> None:
    fleet.kill_host("learner-0", host)
    run(stage, 1.0)
    told = next(one for one in stage.seen if one.kind is Kind.HOST_LOST)
    assert (told.data["host"], told.data["signal"]) == (lost, "SIGKILL")
    exited = next(one for one in stage.seen if one.kind is Kind.NODE_EXITED)
    assert exited.data["signal"] == "SIGKILL"
    assert not fleet.nodes["learner-0"].is_alive


def test_a_host_that_is_not_there_and_a_chip_without_test_hooks_are_refused(
    stage: Stage, fleet: SimFleet, spec: NodeSpec
) -> None:
    with pytest.raises(FleetError, match="host 2"):
        fleet.kill_host("learner-0", 2)
    fleet.start(replace(spec, name="learner-1", hears=False))
    with pytest.raises(FleetError, match="learner-1"):
        fleet.fail_chip("learner-1", 0)


def test_a_chip_that_fails_aborts_a_learner_of_one_host(stage: Stage, spec: NodeSpec) -> None:
    assert isinstance(stage.fleet, SimFleet)
    stage.fleet.start(replace(spec, hosts=None))
    run(stage, 1.0)
    stage.fleet.fail_chip("learner-0", -1)
    run(stage, 1.0)
    assert [one for one in stage.seen if one.kind is Kind.HOST_LOST] == []
    exited = next(one for one in stage.seen if one.kind is Kind.NODE_EXITED)
    assert exited.data["signal"] == "SIGABRT"


def test_a_stopped_learner_loses_its_host_when_it_goes_on(stage: Stage, fleet: SimFleet) -> None:
    fleet.pause("learner-0")
    fleet.kill_host("learner-0", 1)
    run(stage, 1.0)
    assert fleet.nodes["learner-0"].is_alive
    fleet.resume("learner-0")
    run(stage, 1.0)
    assert not fleet.nodes["learner-0"].is_alive


def test_more_hosts_make_a_step_in_less_time() -> None:
    alone_s = Costs().step_takes_s(1_000, 64)
    assert Costs().step_takes_s(1_000, 64, chips=4) == alone_s / 4
    assert Costs(step_s=0.5).step_takes_s(1_000, 64, chips=4) == 0.5
