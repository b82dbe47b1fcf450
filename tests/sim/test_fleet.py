"""The simulated fleet: the contract of all fleets, and what its nodes do to each other."""

from dataclasses import replace

import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.stressors import Slowness
from chaoslab.plan.model import FaultPlan, Stop, Training
from chaoslab.prepare.launch import Launch
from chaoslab.record.run_directory import RunDirectory
from chaoslab.sim.fleet import SimFleet
from tests.contracts.fleet_kit import FleetKit, Stage

_ROUNDS = 12


@pytest.fixture
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    directory = RunDirectory(path=tmp_path_factory.mktemp("run"))
    plan = FaultPlan(name="sim", training=Training(learners=3, stop=Stop(rounds=60)))
    return Launch(
        plan=plan,
        snapshots=directory.snapshots,
        tokens=directory.tokens,
        node_site=SimFleet.node_site,
    )


@pytest.fixture
def spec(launch: Launch) -> NodeSpec:
    return next(iter(launch.learners(dict.fromkeys(launch.plan.training.roster, "syncer.sim:1"))))


@pytest.fixture
def training(stage: Stage, launch: Launch) -> Stage:
    """Three learners and their syncer, in full swing."""
    stage.fleet.start(replace(launch.syncer(keeps_training=True), hears=True))
    for learner in launch.learners(dict.fromkeys(launch.plan.training.roster, "syncer.sim:1")):
        stage.fleet.start(learner)
    while sum(one.kind is Kind.ROUND_MERGED for one in stage.seen) < _ROUNDS:
        stage.poll()
    return stage


def told(stage: Stage, kind: Kind, *, since: int = 0, node: str | None = None) -> Observation:
    """The first of this kind after the first `since` observations, of a node if one is named; fails
    after a simulated minute.
    """
    until_s = stage.clock.now_s() + 60.0
    while True:
        for one in stage.seen[since:]:
            if one.kind is kind and node in (None, one.source, one.data.get("learner")):
                return one
        assert stage.clock.now_s() < until_s, f"no {kind} of {node or 'anybody'}"
        stage.poll()


class TestSimFleet(FleetKit):
    """The kit; what needs a program of its own does not apply to nodes that are none."""


def test_a_paused_learner_is_silent_and_dropped_and_comes_back(training: Stage) -> None:
    since = len(training.seen)
    training.fleet.pause("learner-1")
    assert training.fleet.probe("learner-1").data["state"] == "T"
    assert told(training, Kind.MEMBER_SUSPECTED, since=since).data["learner"] == "learner-1"
    assert told(training, Kind.MEMBER_LEFT, since=since).data["reason"] == "no_progress"
    assert not [one for one in training.seen[since:] if one.source == "learner-1"]
    training.fleet.resume("learner-1")
    again = told(training, Kind.LEARNER_JOINED, since=since, node="learner-1")
    assert again.data["source"] == "resumed"


def test_a_learner_says_its_shard_and_the_rate_of_its_schedule(training: Stage) -> None:
    for number in range(3):
        joined = told(training, Kind.LEARNER_JOINED, node=f"learner-{number}")
        assert (joined.data["shard"], joined.data["learning_rate"]) == (number, 0.0)
    step = told(training, Kind.LEARNER_STEP)
    expected = 0.012 * float(str(step.data["step"])) / 50
    assert step.data["learning_rate"] == pytest.approx(expected)


def test_a_wedged_learner_answers_and_does_not_step(training: Stage) -> None:
    since = len(training.seen)
    training.fleet.wedge("learner-1")
    assert training.fleet.probe("learner-1").data["state"] == "S"
    assert told(training, Kind.MEMBER_LEFT, since=since).data["reason"] == "no_progress"
    assert not [
        one for one in training.seen[since:]
        if one.source == "learner-1" and one.kind is Kind.LEARNER_STEP
    ]  # fmt: skip
    told(training, Kind.LINK_MEASURED, since=since, node="learner-1")
    training.fleet.unwedge("learner-1")
    again = told(training, Kind.LEARNER_JOINED, since=since, node="learner-1")
    assert again.data["source"] == "resumed"


def test_a_syncer_that_waits_while_publishing_serves_nobody_until_it_is_let_go(
    training: Stage,
) -> None:
    fleet = training.fleet
    assert isinstance(fleet, SimFleet)
    fleet.tell("syncer", "watch", phase="publish", wait_s=60.0)
    reached = told(training, Kind.PHASE_REACHED)
    assert (reached.data["phase"], reached.data["is_waiting"]) == ("publish", True)
    since, until_s = len(training.seen), training.clock.now_s() + 5.0
    while training.clock.now_s() < until_s:
        training.poll(until_s - training.clock.now_s())
    assert not [one for one in training.seen[since:] if one.source == "syncer"]
    assert fleet.probe("syncer").data["state"] == "S"
    since = len(training.seen)
    fleet.tell("syncer", "go")
    assert told(training, Kind.ROUND_MERGED, since=since).data["round"] == reached.data["round"]
    told(training, Kind.PUSH_ACCEPTED, since=since)
    assert not [
        one for one in training.seen[since:]
        if one.kind in (Kind.MEMBER_SUSPECTED, Kind.MEMBER_LEFT)
    ]  # fmt: skip


def test_a_learner_that_is_asked_to_leave_says_goodbye(training: Stage) -> None:
    since = len(training.seen)
    training.fleet.notice("learner-1")
    told(training, Kind.LEARNER_NOTICED, since=since)
    training.fleet.signal("learner-1", signal="SIGTERM")
    assert told(training, Kind.LEARNER_LEFT, since=since).data["reason"] == "preempted"
    assert told(training, Kind.MEMBER_LEFT, since=since).data["reason"] == "said_goodbye"
    exited = told(training, Kind.NODE_EXITED, since=since)
    assert (exited.payload.exit_code, exited.payload.sent) == (0, ("SIGHUP", "SIGTERM"))


def test_a_learner_whose_disk_is_busy_leaves_the_next_checkpoint_out(
    stage: Stage, launch: Launch
) -> None:
    training = replace(launch.plan.training, save_every_s=1.0)
    launch = replace(launch, plan=replace(launch.plan, training=training))
    stage.fleet.start(launch.syncer(keeps_training=True))
    for learner in launch.learners(dict.fromkeys(launch.plan.training.roster, "syncer.sim:1")):
        stage.fleet.start(replace(learner, hears=True))
    size_bytes = float(str(told(stage, Kind.CHECKPOINT_SAVED, node="learner-0").data["bytes"]))
    assert isinstance(stage.fleet, SimFleet)
    stage.fleet.tell("learner-0", "disk", bytes_per_s=size_bytes / 2.5)
    ended_s = list[float]()
    for _ in range(3):
        saved = told(stage, Kind.CHECKPOINT_SAVED, since=len(stage.seen), node="learner-0")
        ended_s.append(stage.clock.now_s())
    assert saved.data["took_s"] == pytest.approx(2.5, abs=0.1)
    assert ended_s[2] - ended_s[1] == pytest.approx(3.0, abs=0.3), "begun before it was due"


def test_a_slowed_learner_takes_longer_for_each_step(training: Stage) -> None:
    def step_s() -> float:
        """Of the second report from now on: the first may begin before."""
        told(training, Kind.LEARNER_STEP, since=len(training.seen), node="learner-1")
        said = told(training, Kind.LEARNER_STEP, since=len(training.seen), node="learner-1")
        return float(str(said.data["step_s"]))

    usual_s = step_s()
    training.fleet.stress("learner-1", "injection-0", Slowness(factor=3.0))
    assert 2.5 < step_s() / usual_s < 3.5
    training.fleet.relieve("learner-1", "injection-0")
    assert 0.8 < step_s() / usual_s < 1.2


def test_a_syncer_that_was_killed_continues_from_its_disk(training: Stage) -> None:
    merged = [one for one in training.seen if one.kind is Kind.ROUND_MERGED]
    training.fleet.kill("syncer")
    told(training, Kind.LINK_CLOSED, node="learner-0")
    since = len(training.seen)
    training.fleet.restart("syncer")
    ready = told(training, Kind.SYNCER_READY, since=since)
    assert ready.data["is_recovered"] is True
    assert int(str(ready.data["rounds"])) >= len(merged)
    assert told(training, Kind.ROUND_MERGED, since=since).data["is_restated"] is True
    assert told(training, Kind.LEARNER_JOINED, since=since).data["source"] == "resumed"
    since = len(training.seen)
    assert told(training, Kind.ROUND_MERGED, since=since).data["is_restated"] is False


def test_a_node_that_was_given_no_ear_is_told_nothing(training: Stage) -> None:
    assert training.fleet.nodes["learner-0"].role is Role.LEARNER
    with pytest.raises(FleetError, match="test hooks"):
        training.fleet.tell("learner-0", "slow", factor=2.0)  # type: ignore[attr-defined]
