"""Survivors: pace, process and step count of those that no fault touched."""

from dataclasses import replace

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code
from chaoslab.checks.survivors import Survivors
from chaoslab.core.events import Kind
from tests.histories import Story, half_killed
from tests.model_training import STEPS, TICK_S


def test_survivors_that_keep_their_pace_pass() -> None:
    finding = Survivors().judge(half_killed().end().history())
    assert (finding.outcome, finding.observed) == (Outcome.PASS, 1.0)
    assert (finding.best, finding.room) == (1.0, pytest.approx(1.0))
    assert finding.numbers["slowdown_factor"] == {"learner-0": 1.0, "learner-2": 1.0}


def test_a_survivor_that_slows_down_under_the_fault_fails_by_name() -> None:
    story = Story().baseline().kill("learner-1").slow("learner-2", 2.5).train(6)
    finding = Survivors().judge(story.heal().train(9).end().history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert (finding.observed, finding.margin) == (2.5, pytest.approx(-1.0))
    assert finding.codes == (Code.SLOWED,)


def test_slowing_down_after_the_fault_is_nothing_to_this_check() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().slow("learner-2", 2.5).train(9)
    assert Survivors().judge(story.end().history()).outcome is Outcome.PASS


def test_the_victims_own_pace_is_not_judged() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().slow("learner-1", 2.5)
    story.touch("learner-3").train(0.5).heal().train(9).end()
    assert "learner-1" not in Survivors().judge(story.history()).culprits


def test_a_survivor_that_stands_still_under_the_fault_fails() -> None:
    story = Story().baseline().kill("learner-1").freeze("learner-2").train(6)
    finding = Survivors().judge(story.heal().train(9).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.STOOD_STILL,))


def test_a_survivor_that_waits_for_a_round_stands_still_and_the_finding_says_so() -> None:
    story = Story().baseline().kill("learner-1").freeze("learner-2").train(3)
    waits = {"learner": "learner-2", "incarnation": 1, "epoch": 3, "step": 90, "c_steps": 26}
    story.say(Kind.LEARNER_WAITING, "learner-2", fragment=4, waited_s=2.5, **waits)
    finding = Survivors().judge(story.train(3).heal().train(9).end().history())
    assert finding.codes == (Code.STOOD_STILL,)
    assert "2.5 s" in finding.reason
    assert "fragment 4" in finding.reason


@pytest.mark.parametrize("factor", [0.2, 4.0])
def test_a_survivor_whose_counter_contradicts_its_step_times_fails(factor: float) -> None:
    story = half_killed().end()
    for event in story.events:
        if event.kind is Kind.LEARNER_STEP and event.data["learner"] == "learner-2":
            said = {"step_s": factor * event.payload.step_s}
            story.events[event.seq] = replace(event, data={**event.data, **said})
        elif event.kind is Kind.BASELINE_MEASURED:
            usual = {**event.payload.step_s, "learner-2": factor * TICK_S / STEPS}
            story.events[event.seq] = replace(event, data={**event.data, "step_s": usual})
    finding = Survivors().judge(story.history())
    assert (finding.outcome, finding.culprits) == (Outcome.FAIL, ("learner-2",))
    assert finding.codes == (Code.STEP_TIMES_FALSE,)


def test_a_strangers_kill_fails_and_is_told_with_its_signal_and_time() -> None:
    story = Story().baseline().kill("learner-1").train(2).strike("learner-2").train(4)
    finding = Survivors().judge(story.heal().train(9).end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.EXIT_NOT_ASKED,))


def test_a_step_that_goes_back_fails() -> None:
    story = Story().baseline().kill("learner-1").train(6).heal().train(9)
    story.altered(Kind.LEARNER_STEP, lambda e: {"step": 7, "learner": "learner-2"})
    finding = Survivors().judge(story.end().history())
    assert (finding.outcome, finding.codes) == (Outcome.FAIL, (Code.STEP_WENT_BACK,))


def test_a_victim_may_begin_again_at_an_earlier_step() -> None:
    story = half_killed().end()
    first = next(
        event
        for event in story.events
        if event.kind is Kind.LEARNER_STEP and event.data["incarnation"] == 2
    )
    story.events[first.seq] = type(first)(
        seq=first.seq, time_s=first.time_s, source=first.source, kind=first.kind,
        data={**first.data, "step": 1},
    )  # fmt: skip
    assert Survivors().judge(story.history()).outcome is Outcome.PASS


def test_a_fault_too_short_for_samples_is_unknown() -> None:
    story = Story().baseline().kill("learner-1").train(0.5).heal().train(9).end()
    finding = Survivors().judge(story.history())
    assert (finding.outcome, finding.codes) == (Outcome.UNKNOWN, (Code.TOO_FEW_SAMPLES,))


def test_without_faults_or_survivors_nothing_is_known() -> None:
    quiet = Story().baseline().train(9).end()
    everybody = Story(learners=2).baseline().kill("learner-0", "learner-1").train(6).heal().end()
    for story in (quiet, everybody):
        assert Survivors().judge(story.history()).outcome is Outcome.UNKNOWN


def test_a_learner_on_its_way_back_is_no_survivor_of_another_fault() -> None:
    story = Story(rejoin_s=3.0).baseline().kill("learner-1").train(6).heal()
    story.kill("learner-2").train(2).heal().train(20).end()
    finding = Survivors().judge(story.history())
    assert "learner-1" not in str(finding.numbers["slowdown_factor"])
    assert finding.outcome is Outcome.PASS
