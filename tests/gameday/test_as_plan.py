"""The plan of what was done in a game-day: what is left out, how long, and in which order."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Action
from chaoslab.gameday.as_plan import as_plan
from chaoslab.plan.model import FaultPlan, FaultSpec, Trigger
from tests.gameday_room import GO, SECOND, SKIP_OTHER, after_round, ask, kind, plan_of, played
from tests.stage import HALF


def only(plan: FaultPlan) -> FaultSpec:
    (fault,) = plan.faults
    return fault


def test_what_was_skipped_is_left_out_and_nothing_waits(tmp_path: Path) -> None:
    history = played(tmp_path, [GO, SKIP_OTHER])
    plan = as_plan(plan_of(), (HALF, SECOND), history)
    assert plan.gameday is None
    assert (only(plan).id, only(plan).at) == ("half-dies", Trigger(round=20))
    assert only(plan).target.names == ("learner-1", "learner-3")
    assert only(plan).outage.seconds == 5.0


def test_what_was_healed_early_lasts_as_long_as_it_did(tmp_path: Path) -> None:
    heal = (kind(Kind.FAULT_INJECTED, "half-dies"), ask(Action.HEAL))
    history = played(tmp_path, [GO, heal, SKIP_OTHER])
    seconds = only(as_plan(plan_of(), (HALF, SECOND), history)).outage.seconds
    assert seconds is not None
    assert 0 < seconds < 1


def test_what_came_after_another_fault_comes_after_it_again_without_the_talk(
    tmp_path: Path,
) -> None:
    last = (after_round(120), ask(Action.GO, "other"))
    history = played(tmp_path, [GO, last])
    first, second = as_plan(plan_of(), (HALF, SECOND), history).faults
    assert first.at == Trigger(round=20)
    assert second.at == Trigger(after="half-dies", offset_s=10.0)


def test_what_was_made_milder_and_repeated_comes_as_often_on_the_same_targets(
    tmp_path: Path,
) -> None:
    milder = (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.MILDER, "half-dies"))
    again = (kind(Kind.FAULT_HEALED, "half-dies"), ask(Action.REPEAT, "half-dies"))
    orders = [milder, GO, again, SKIP_OTHER, (after_round(130), ask(Action.END))]
    history = played(tmp_path, orders, keep=True)
    first, second = as_plan(plan_of(), (HALF, SECOND), history).faults
    assert [first.id, second.id] == ["half-dies-1", "half-dies-2"]
    assert first.target.names == second.target.names == ("learner-1",)
    assert second.at is not None
    assert second.at.after == "half-dies-1"


def test_what_came_while_another_was_open_keeps_its_own_trigger(tmp_path: Path) -> None:
    at_once = (kind(Kind.FAULT_INJECTED, "half-dies"), ask(Action.GO, "other"))
    history = played(tmp_path, [GO, at_once], injections=[HALF, replace(SECOND, for_s=1.0)])
    first, second = as_plan(plan_of(), (HALF, SECOND), history).faults
    assert (first.id, second.id) == ("half-dies", "other")
    assert second.at == Trigger(round=24)


def test_without_an_injection_there_is_no_plan(tmp_path: Path) -> None:
    history = played(
        tmp_path, [(kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies")), SKIP_OTHER]
    )
    with pytest.raises(PlanError, match="nothing was injected"):
        as_plan(plan_of(), (HALF, SECOND), history)
