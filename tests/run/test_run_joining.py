"""Runs in which learners join that were not there at the start, on a fake fleet."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.faults.control import ControlScaleUp
from chaoslab.plan.model import Injection, Trigger
from chaoslab.record.history import History
from tests.fake_nodes import Troubles
from tests.stage import HALF, PLAN, Stage, ending, the

NEW = ("learner-4", "learner-5")
GROWING = replace(PLAN, training=replace(PLAN.training, reserve=2))
JOIN = Injection(
    number=0,
    spec="two-join",
    fault="control.scale_up",
    settings=ControlScaleUp(),
    targets=NEW,
    trigger=Trigger(round=20),
    for_s=None,
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A whole run in which two join."""
    stage = Stage(tmp_path_factory.mktemp("run"), [JOIN], plan=GROWING)
    stage.execute()
    return stage


@pytest.fixture(scope="module")
def history(stage: Stage) -> History:
    return History.read(stage.directory.path)


def test_the_reserve_is_known_and_linked_from_the_start_and_starts_when_its_time_has_come(
    stage: Stage, history: History
) -> None:
    assert [name for _, verb, name in stage.fleet.calls if verb == "enlist"] == list(NEW)
    assert set(stage.fleet.links) == {*GROWING.training.learner_names, *NEW}
    assert the(history, Kind.RUN_STARTED).payload.reserve == NEW
    injecting = the(history, Kind.FAULT_INJECTING)
    assert injecting.data["brings_in"] is True
    began = [e for e in history.of(Kind.NODE_STARTED) if e.payload.node in NEW]
    assert [(e.payload.node, e.seq > injecting.seq) for e in began] == [(one, True) for one in NEW]
    assert (history.newcomers, len(history.learners)) == (NEW, 6)
    assert ending(history) == ("completed", "")


def test_they_are_told_apart_by_their_shards_and_the_syncer_knows_all_names(
    stage: Stage,
) -> None:
    shards = []
    for name in (*GROWING.training.learner_names, *NEW):
        command = stage.fleet.spec_of(name).command
        shards.append(tuple(command[command.index(flag) + 1] for flag in ("--shard", "--shards")))
    assert shards == [(str(shard), "6") for shard in range(6)]
    assert all(name in " ".join(stage.fleet.spec_of("syncer").command) for name in NEW)


def test_a_run_settles_only_when_whoever_came_has_contributed(history: History) -> None:
    settled = the(history, Kind.RUN_SETTLED)
    contributed = {
        item.learner
        for event in history.of(Kind.ROUND_MERGED)
        if event.seq < settled.seq
        for item in event.payload.contributors
    }
    assert settled.payload.is_settled
    assert contributed >= set(NEW)


def test_whoever_never_gets_in_is_named_and_waited_for_only_so_long(tmp_path: Path) -> None:
    troubles = Troubles(mute=frozenset({"learner-5"}))
    history = Stage(tmp_path, [JOIN], plan=GROWING, troubles=troubles).execute()
    (pending,) = the(history, Kind.RUN_SETTLED).payload.pending
    assert pending.startswith("learner-5 ")


def test_with_a_length_they_are_asked_to_leave_when_it_is_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [replace(JOIN, for_s=5.0)], plan=GROWING)
    history = stage.execute()
    asked = [name for _, verb, name in stage.fleet.calls if verb == "SIGTERM" and name in NEW]
    assert asked[:2] == list(NEW)
    assert the(history, Kind.RUN_SETTLED).payload.is_settled, "nobody waits for who has left"
    assert ending(history) == ("completed", "")


def test_whoever_is_there_already_is_not_brought_in_again(tmp_path: Path) -> None:
    again = replace(JOIN, number=1, spec="again", trigger=Trigger(round=40))
    history = Stage(tmp_path, [JOIN, again], plan=GROWING).execute()
    assert the(history, Kind.FAULT_SKIPPED).payload.reason.startswith("learner-4, learner-5: ")


def test_whoever_came_to_stay_can_be_a_victim_like_any_other(tmp_path: Path) -> None:
    kill = replace(HALF, number=1, targets=("learner-1", "learner-4"), trigger=Trigger(round=40))
    history = Stage(tmp_path, [JOIN, kill], plan=GROWING).execute()
    assert [story.spec for story in history.faults] == ["two-join", "half-dies"]
    assert not history.of(Kind.FAULT_SKIPPED)


def test_a_reserve_that_nobody_brings_in_never_runs(tmp_path: Path) -> None:
    history = Stage(tmp_path, plan=GROWING).execute()
    assert (history.newcomers, len(history.learners)) == ((), 4)
    assert not {e.payload.node for e in history.of(Kind.NODE_STARTED)} & set(NEW)
