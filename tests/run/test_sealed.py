"""Sealed injections in a run: when they come, and what orders do to them."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.payloads import (
    Action,
    FaultInjected,
    FaultSkipped,
    Obstacle,
    OperatorRefused,
    PhaseEntered,
    Status,
)
from chaoslab.plan.model import Limits, Trigger
from chaoslab.run.operators import Inbox
from tests.gameday_room import after_round, ask, kind
from tests.sealed_day import ONE, PLANNED, SKIP_HALF, in_inject, sealed_day, story_of
from tests.stage import Stage


def test_it_comes_by_itself_at_its_time_after_faults_began(tmp_path: Path) -> None:
    history = sealed_day(tmp_path, [SKIP_HALF])
    began = next(e for e in history.of(PhaseEntered) if e.payload.phase == "inject")
    story = story_of(history)
    assert story.injecting.payload.asked_s == pytest.approx(began.time_s + 6.0, abs=0.01)
    assert story.status is Status.PROVED
    assert not [e for e in history.of(Kind.FAULT_HELD) if e.data["spec"] == "sealed-1"]


def test_before_it_comes_its_id_is_unknown_and_afterwards_it_is_a_fault_like_others(
    tmp_path: Path,
) -> None:
    orders = [
        (in_inject, ask(Action.SKIP, "sealed-1")),
        (in_inject, ask(Action.MILDER, "sealed-7")),
        (in_inject, ask(Action.GO)),
        SKIP_HALF,
        (kind(Kind.FAULT_INJECTED, "sealed-1"), ask(Action.HEAL, "sealed-1")),
        (kind(Kind.FAULT_HEALED, "sealed-1"), ask(Action.REPEAT, "sealed-1")),
    ]
    history = sealed_day(tmp_path, orders)
    assert [event.payload.reason for event in history.of(OperatorRefused)] == [
        "sealed-1 is no fault of the plan: half-dies, other",
        "sealed-7 is no fault of the plan: half-dies, other",
        "no fault waits: name one to inject it before its time",
    ]
    first, again = [one for one in history.faults if one.spec == "sealed-1"]
    assert first.healed.time_s - first.injected.time_s < 1.0
    assert (first.injection, again.injection) == ("injection-2", "injection-3")
    assert again.targets == first.targets


def test_the_end_leaves_out_what_has_not_come_and_says_what_it_was(tmp_path: Path) -> None:
    orders = [SKIP_HALF, (after_round(30), ask(Action.END))]
    later = replace(ONE, trigger=Trigger(time_s=50.0))
    history = sealed_day(tmp_path, orders, one=later, keep=True)
    (skipped,) = [e.payload for e in history.of(FaultSkipped) if e.payload.spec == "sealed-1"]
    assert skipped.obstacle is Obstacle.OPERATOR


def test_an_abort_prevents_it(tmp_path: Path) -> None:
    history = sealed_day(tmp_path, [(after_round(12), ask(Action.ABORT))])
    assert not history.of(FaultInjected)
    assert history.events[-1].kind is Kind.RUN_FINISHED


def test_the_limits_leave_it_out_while_other_faults_are_open(tmp_path: Path) -> None:
    orders = [(in_inject, ask(Action.GO, "half-dies"))]
    soon = replace(ONE, trigger=Trigger(time_s=1.0))
    history = sealed_day(tmp_path, orders, one=soon, limits=Limits(max_affected=0.5))
    (skipped,) = history.of(FaultSkipped)
    assert skipped.payload.obstacle is Obstacle.LIMITS
    assert skipped.payload.spec == "sealed-1"
    assert "3 of 4 learners would be under a fault at once" in skipped.payload.reason


def test_a_plan_without_faults_of_its_own_still_waits_for_what_is_sealed(tmp_path: Path) -> None:
    plan = replace(PLANNED, faults=())
    history = Stage(tmp_path, plan=plan, inbox=Inbox(sealed=(ONE,))).execute()
    assert story_of(history).healed is not None
