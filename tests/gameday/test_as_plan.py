"""The plan of what was done in a game-day: what is left out, how long, and in which order."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.errors import PlanError
from chaoslab.core.events import Kind
from chaoslab.core.payloads import Action
from chaoslab.gameday.as_plan import as_plan
from chaoslab.plan.model import FaultPlan, FaultSpec, GameDay, Limits, Pick, Target, Trigger
from chaoslab.run.operators import Ask
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


def told(plan: FaultPlan) -> list[object]:
    return [(one.id, one.at, one.target.names, one.outage.seconds) for one in plan.faults]


PAIR, THIRD = ("learner-1", "learner-3"), ("learner-2",)
AT_ONCE = ("half-dies", Trigger(round=20), PAIR, 5.0)
CASES: Mapping[str, tuple[Sequence[tuple[Any, Ask]], Sequence[object]]] = {
    "what was skipped is left out": ([GO, SKIP_OTHER], [AT_ONCE]),
    "what was healed early lasts as long as it did": (
        [GO, (kind(Kind.FAULT_INJECTED, "half-dies"), ask(Action.HEAL)), SKIP_OTHER],
        [("half-dies", Trigger(round=20), PAIR, pytest.approx(0.5, abs=0.49))],
    ),
    "what came after another fault does again, without the talk": (
        [GO, (after_round(120), ask(Action.GO, "other"))],
        [AT_ONCE, ("other", Trigger(after="half-dies", offset_s=10.0), THIRD, 3.0)],
    ),
    "what was made milder and repeated comes as often on the same targets": (
        [(kind(Kind.FAULT_HELD, "half-dies"), ask(Action.MILDER, "half-dies")), GO, SKIP_OTHER,
         (kind(Kind.FAULT_HEALED, "half-dies"), ask(Action.REPEAT, "half-dies"))],
        [("half-dies-1", Trigger(round=20), ("learner-1",), 5.0),
         ("half-dies-2", Trigger(after="half-dies-1", offset_s=0.2), ("learner-1",), 5.0)],
    ),
    "faults keep the order in which they were let go": (
        [(kind(Kind.FAULT_HELD, "other"), ask(Action.GO, "other")),
         (kind(Kind.FAULT_INJECTED, "other"), ask(Action.GO, "half-dies"))],
        [("other", Trigger(round=24), THIRD, 3.0),
         ("half-dies", Trigger(round=25), PAIR, 5.0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("orders", "expected"), CASES.values(), ids=CASES)
def test_what_was_done_is_planned(
    tmp_path: Path, orders: Sequence[tuple[Any, Ask]], expected: Sequence[object]
) -> None:
    plan = as_plan(plan_of(), (HALF, SECOND), played(tmp_path, orders))
    assert (told(plan), plan.gameday) == (expected, None)


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
