"""The step time of a run: measured or given, told to everybody, in force before the baseline."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import AbilityError
from chaoslab.core.events import Kind
from chaoslab.core.units import Pacing
from chaoslab.fleet.base import Ability
from chaoslab.plan.model import LearnerGroup, Training
from chaoslab.plan.schedule import Schedule
from chaoslab.prepare.preflight import refuse_impossible
from chaoslab.prepare.setup import LinkSetup
from chaoslab.run import twin
from tests.fake_nodes import STEP_S, Troubles
from tests.fakes import FakeFleet
from tests.stage import HALF, PLAN, Stage, ending, the


def paced(step_time: float | Pacing, **training: object) -> Training:
    return replace(PLAN.training, step_time=step_time, **training)


AUTO = replace(PLAN, training=paced(Pacing.AUTO))
GIVEN = replace(PLAN, training=paced(0.25))


def told(stage: Stage) -> list[tuple[str, float]]:
    """Who was told which step time."""
    verbs = [(verb.split(maxsplit=2), name) for _, verb, name in stage.fleet.calls]
    return [
        (name, json.loads(words[2])["step_s"]) for words, name in verbs if words[:1] == ["tell"]
    ]


def test_auto_is_the_median_step_time_with_room_and_everybody_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [HALF], plan=AUTO)
    history = stage.execute()

    pace, names = the(history, Kind.PACE_SET).payload, PLAN.training.learner_names
    assert pace.step_s == pytest.approx(1.3 * STEP_S)
    assert pace.measured_s == dict.fromkeys(names, STEP_S)
    every_life = (*names, "learner-1", "learner-3")
    assert told(stage) == [(name, pace.step_s) for name in every_life]
    second = [e for e in history.of(Kind.LEARNER_STEP) if e.payload.incarnation == 2]
    assert {event.payload.period_s for event in second} == {pace.step_s}
    assert stage.fleet.spec_of("learner-0").hears
    assert not stage.fleet.spec_of("syncer").hears
    assert twin.without_faults(AUTO, pace.step_s).training.step_time == pace.step_s
    assert twin.without_faults(PLAN, None).training == PLAN.training


def test_the_baseline_begins_when_everybody_keeps_the_step_time(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF], plan=AUTO).execute()

    told_seq = the(history, Kind.PACE_SET).seq
    paced_s = {
        event.payload.learner: event.time_s
        for event in reversed(history.of(Kind.LEARNER_STEP))
        if event.payload.period_s is not None and event.seq > told_seq
    }
    frame, measured = PLAN.baseline, the(history, Kind.BASELINE_MEASURED)
    later = [
        event
        for event in history.of(Kind.ROUND_MERGED)
        if max(paced_s.values()) < event.time_s <= measured.time_s
    ]
    assert len(paced_s) == 4
    assert len(later) >= frame.warmup + frame.window
    assert ending(history) == ("completed", "")


def test_a_slow_group_is_measured_at_full_speed(tmp_path: Path) -> None:
    groups = (LearnerGroup(count=2), LearnerGroup(count=2, speed=0.5))
    history = Stage(
        tmp_path, plan=replace(PLAN, training=paced(Pacing.AUTO, learners=groups))
    ).execute()

    measured_s = the(history, Kind.PACE_SET).payload.measured_s
    assert measured_s["learner-0"] == pytest.approx(STEP_S)
    assert measured_s["learner-3"] == pytest.approx(0.5 * STEP_S)


def test_a_reserve_that_will_share_the_machine_makes_it_longer(tmp_path: Path) -> None:
    plan = replace(PLAN, training=paced(Pacing.AUTO, reserve=2))
    history = Stage(tmp_path, plan=plan).execute()
    assert the(history, Kind.PACE_SET).payload.step_s == pytest.approx(1.5 * 1.3 * STEP_S)


def test_a_given_step_time_is_on_the_command_line_and_nobody_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, plan=GIVEN)
    history = stage.execute()

    pace = the(history, Kind.PACE_SET)
    assert (pace.payload.step_s, dict(pace.payload.measured_s)) == (0.25, {})
    command = stage.fleet.spec_of("learner-2").command
    assert command[command.index("--step-time") + 1] == "0.25"
    assert not stage.fleet.spec_of("learner-2").hears
    assert told(stage) == []


def test_without_a_step_time_nothing_is_set(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.execute().of(Kind.PACE_SET) == []
    assert "--step-time" not in stage.fleet.spec_of("learner-0").command


def test_a_measured_step_time_that_the_machine_cannot_keep_is_measured_again(
    tmp_path: Path,
) -> None:
    history = Stage(tmp_path, [HALF], plan=AUTO, troubles=Troubles(crowded_below_s=0.2)).execute()

    first, second = history.of(Kind.PACE_SET)
    assert first.payload.step_s == pytest.approx(1.3 * STEP_S)
    assert second.payload.step_s == pytest.approx(1.3 * 0.2)
    windows = history.of(Kind.BASELINE_MEASURED)
    assert [window.seq > second.seq for window in windows] == [False, True]
    assert windows[1].seq < the(history, Kind.FAULT_INJECTING).seq


def test_a_given_step_time_is_never_changed(tmp_path: Path) -> None:
    history = Stage(tmp_path, [HALF], plan=GIVEN, troubles=Troubles(crowded_below_s=0.3)).execute()
    assert len(history.of(Kind.PACE_SET)) == len(history.of(Kind.BASELINE_MEASURED)) == 1
    assert history.of(Kind.FAULT_INJECTING), "its findings say that it was too short"


def test_a_learner_that_does_not_keep_it_ends_the_run_before_any_fault(tmp_path: Path) -> None:
    troubles = Troubles(unpaced=frozenset({"learner-2"}))
    plan = replace(
        AUTO, training=replace(AUTO.training, stop=replace(PLAN.training.stop, rounds=999))
    )
    history = Stage(tmp_path, [HALF], plan=plan, troubles=troubles).execute()

    outcome, reason = ending(history)
    assert outcome == "aborted"
    assert "learner-2 did not report" in reason
    assert not history.of(Kind.FAULT_INJECTING)


def test_a_learner_that_dies_in_the_warm_up_is_not_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, plan=AUTO)
    stage.fleet.at(3.0, lambda: stage.fleet.strike("learner-1"))
    history = stage.execute()
    assert set(the(history, Kind.PACE_SET).payload.measured_s) == {
        "learner-0", "learner-2", "learner-3",
    }  # fmt: skip


def test_a_fleet_without_a_way_to_hooks_needs_a_duration() -> None:
    class Deaf(FakeFleet):
        abilities = frozenset(Ability) - {Ability.HOOKS}

    nothing = Schedule(seed=0, injections=(), dropped=())
    with pytest.raises(AbilityError, match="step_time"):
        refuse_impossible(AUTO, nothing, Deaf, LinkSetup())
    refuse_impossible(GIVEN, nothing, Deaf, LinkSetup())
