"""Survivors: pace, process and step count of those that no fault touched."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.survivors import Survivors
from chaoslab.core.events import Event, Json, Kind
from tests.checks.cases import Case, doubts, each, fails, passes, rewritten
from tests.histories import Story, half_killed
from tests.model_training import STEPS, TICK_S


def test_survivors_that_keep_their_pace_pass() -> None:
    finding = Survivors().judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 1.0)
    assert (finding.best, finding.margin) == (1.0, pytest.approx(1.0))
    assert finding.numbers["slowdown_factor"] == {"learner-0": 1.0, "learner-2": 1.0}


CHECK = Survivors()


def dies_and_returns(story: Story) -> Story:
    """What is told of the others so far lasts for the six seconds of a kill."""
    return story.train(6).heal().train(9)


def one_dies() -> Story:
    return Story().baseline().kill("learner-1")


def victim_is_slow() -> Story:
    story = one_dies().train(6).heal().slow("learner-1", 2.5)
    return story.touch("learner-3").train(0.5).heal().train(9).end()


def twice(step_s: Mapping[str, float]) -> dict[str, Json]:
    return {who: 2 * own_s for who, own_s in step_s.items()}


def went_back(name: str, incarnation: int) -> Story:
    """Its first report of a life that began during the fault, or its last one, is of step 1."""
    story = dies_and_returns(one_dies())
    ours = [
        event for event in story.events
        if event.kind is Kind.LEARNER_STEP and event.data["learner"] == name
        and event.data["incarnation"] == incarnation
    ]  # fmt: skip
    which = ours[0] if incarnation > 1 else ours[-1]
    story.events[which.seq] = replace(which, data={**which.data, "step": 1})
    return story.end()


def contradicted(factor: float) -> Story:
    """The step times of learner-2 are so many times what its counter says, in the baseline too."""

    def is_its(event: Event) -> bool:
        return event.data["learner"] == "learner-2"

    def usual(event: Event) -> dict[str, Json]:
        known = event.payload.step_s_median
        return {"step_s_median": {**known, "learner-2": factor * TICK_S / STEPS}}

    def said(event: Event) -> dict[str, Json]:
        return {"step_s": factor * event.payload.step_s}

    story = rewritten(half_killed().end(), Kind.LEARNER_STEP, said, is_its)
    return rewritten(story, Kind.BASELINE_MEASURED, usual)


CASES = {
    "slowing down after the fault": passes(
        CHECK, lambda: one_dies().train(6).heal().slow("learner-2", 2.5).train(9).end()
    ),
    "a survivor that stalls": fails(
        CHECK,
        lambda: dies_and_returns(one_dies().freeze("learner-2")).end(),
        Code.STALLED,
    ),
    "a slow one, after a baseline with a hiccup": fails(
        CHECK,
        lambda: (
            one_dies()
            .slow("learner-2", 1.5)
            .train(6)
            .heal()
            .train(9)
            .end()
            .altered(Kind.BASELINE_MEASURED, lambda e: {"step_s": twice(e.payload.step_s)})
        ),
        Code.SLOWED,
        of=("learner-2",),
    ),
    "step times that are too short for the counter": fails(
        CHECK, lambda: contradicted(0.2), Code.STEP_TIMES_FALSE, of=("learner-2",)
    ),
    "step times that are too long for the counter": fails(
        CHECK, lambda: contradicted(4.0), Code.STEP_TIMES_FALSE, of=("learner-2",)
    ),
    "a stranger's kill": fails(
        CHECK,
        lambda: one_dies().train(2).strike("learner-2").train(4).heal().train(9).end(),
        Code.UNEXPECTED_EXIT,
    ),
    "a step that goes back": fails(CHECK, lambda: went_back("learner-2", 1), Code.STEP_WENT_BACK),
    "a victim that begins again at an earlier step": passes(
        CHECK, lambda: went_back("learner-1", 2)
    ),
    "a fault too short for samples": doubts(
        CHECK,
        lambda: one_dies().train(0.5).heal().train(9).end(),
        Code.TOO_FEW_SAMPLES,
    ),
    "no fault": doubts(CHECK, lambda: Story().baseline().train(9).end()),
    "no survivor": doubts(
        CHECK,
        lambda: Story(learners=2).baseline().kill("learner-0", "learner-1").train(6).heal().end(),
    ),
}


@each(CASES)
def test_survivors(case: Case) -> None:
    case.hold()


def test_a_survivor_that_slows_down_under_the_fault_fails_by_name() -> None:
    finding = CHECK.judge(dies_and_returns(one_dies().slow("learner-2", 2.5)).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert (finding.observed, finding.margin) == (2.5, pytest.approx(-5.0))
    assert finding.codes == (Code.SLOWED,)


def test_a_survivor_that_waits_for_a_round_stands_still_and_the_finding_says_so() -> None:
    waits = {"learner": "learner-2", "incarnation": 1, "epoch": 3, "step": 90, "c_steps": 26}
    story = one_dies().freeze("learner-2").train(3)
    story.say(Kind.LEARNER_WAITING, "learner-2", fragment=4, waited_s=2.5, **waits)
    finding = CHECK.judge(story.train(3).heal().train(9).end().history())
    assert finding.codes == (Code.STALLED,)
    assert all(part in finding.reason for part in ("2.5 s", "fragment 4"))


def test_victims_and_learners_on_their_way_back_are_no_survivors() -> None:
    assert "learner-1" not in CHECK.judge(victim_is_slow().history()).culprits
    story = Story(rejoin_s=3.0).baseline().kill("learner-1").train(6).heal()
    story.kill("learner-2").train(2).heal().train(20).end()
    finding = CHECK.judge(story.history())
    assert "learner-1" not in str(finding.numbers["slowdown_factor"])
    assert finding.outcome is Outcome.PASS
