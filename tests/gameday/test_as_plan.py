"""The plan of what was done in a game-day: what is left out, how long, and in which order."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Action
from chaoslab.gameday.as_plan import as_plan
from chaoslab.plan.model import FaultPlan, FaultSpec, GameDay, Limits, Pick, Target, Trigger
from tests.gameday_room import (
    GO,
    OTHER,
    SECOND,
    SKIP_OTHER,
    SPEC,
    after_round,
    ask,
    kind,
    plan_of,
    played,
    staged,
)
from tests.run.test_phase_triggers import WHO_DONATES, reaches
from tests.stage import HALF

ENDED = (kind(Kind.FAULT_HEALED, "half-dies"), ask(Action.END))


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
    assert second.at.after == "half-dies-1"


def test_faults_keep_the_order_in_which_they_were_let_go(tmp_path: Path) -> None:
    orders = [
        (kind(Kind.FAULT_HELD, "other"), ask(Action.GO, "other")),
        (kind(Kind.FAULT_INJECTED, "other"), ask(Action.GO, "half-dies")),
    ]
    first, second = as_plan(plan_of(), (HALF, SECOND), played(tmp_path, orders)).faults
    assert (first.id, second.id) == ("other", "half-dies")
    assert (first.at, second.at) == (Trigger(round=24), Trigger(round=25))


def test_one_that_was_to_follow_a_fault_that_was_skipped_comes_after_the_baseline(
    tmp_path: Path,
) -> None:
    later = Trigger(after="half-dies", offset_s=2.0)
    spec, injection = replace(OTHER, at=later), replace(SECOND, trigger=later)
    orders = [
        (kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies")),
        (after_round(30), ask(Action.GO, "other")),
    ]
    history = played(tmp_path, orders, injections=[HALF, injection], specs=[SPEC, spec])
    fault = only(as_plan(plan_of([SPEC, spec]), (HALF, injection), history))
    assert (fault.id, fault.at) == ("other", Trigger(round=11))


def test_what_lasted_longer_than_the_plan_allows_gets_the_time(tmp_path: Path) -> None:
    rest = replace(HALF, for_s=None)
    orders = [GO, SKIP_OTHER, (after_round(300), ask(Action.HEAL)), ENDED]
    history = played(tmp_path, orders, injections=[rest, SECOND], keep=True)
    short = replace(plan_of(), limits=Limits(timeout_s=60.0))
    plan = as_plan(short, (rest, SECOND), history)
    seconds = only(plan).outage.seconds
    assert 60 < seconds < plan.limits.timeout_s


def test_a_trigger_by_phase_stays_and_a_repetition_follows(tmp_path: Path) -> None:
    spec = replace(
        SPEC, id="at-written", at=WHO_DONATES.trigger, target=Target(count=1, pick=Pick.AT_PHASE)
    )
    again = (kind(Kind.FAULT_HEALED, "at-written"), ask(Action.REPEAT, "at-written"))
    orders = [again, (after_round(120), ask(Action.END))]
    plan = plan_of([spec], GameDay())
    stage, _ = staged(tmp_path, orders, plan=plan, injections=[WHO_DONATES], keep=True)
    reaches(stage, 25.0, "learner-2", "donate")
    first, second = as_plan(plan, (WHO_DONATES,), stage.execute()).faults
    assert (first.at, first.target) == (spec.at, spec.target)
    assert (second.at.after, second.target.names) == ("at-written-1", ("learner-2",))


def test_without_an_injection_there_is_no_plan(tmp_path: Path) -> None:
    history = played(
        tmp_path, [(kind(Kind.FAULT_HELD, "half-dies"), ask(Action.SKIP, "half-dies")), SKIP_OTHER]
    )
    with pytest.raises(PlanError, match="nothing was injected"):
        as_plan(plan_of(), (HALF, SECOND), history)
