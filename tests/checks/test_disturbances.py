"""A harness or a machine that was held up excuses what only it can have done, and nothing else."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from chaoslab.checks.answers import Return
from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.detection import Detection
from chaoslab.checks.disturbances import disturbances, weighed, without
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.survivors import Survivors
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.events import Json, Kind
from chaoslab.record.journal import History
from tests.checks.stalled import stood_still
from tests.histories import Story, half_killed

GAP = Continuity(max_gap=3.0)


def outcome(verdict: Verdict, check: str) -> Outcome:
    return next(finding.outcome for finding in verdict.findings if finding.check == check)


def reason(verdict: Verdict, check: str) -> str:
    return next(finding.reason for finding in verdict.findings if finding.check == check)


# ---------------------------------------------------------------- the harness stood still


@pytest.mark.parametrize("length_s", [4.0, 7.0])
def test_training_that_went_on_while_the_harness_stood_still_passes(length_s: float) -> None:
    history = stood_still(half_killed(), lambda story: story.train(length_s))
    verdict = judge(history, [GAP, Rejoin(), Survivors(), Detection()])
    assert verdict.training_continued is True
    assert verdict.outcome is Outcome.PASS, verdict.explain()
    assert verdict.longest_gap_s < 1.0


def test_a_pause_that_is_too_long_only_with_the_stall_is_unknown() -> None:
    verdict = judge(stood_still(half_killed(), lambda story: story.stall(4.0)), [GAP])
    assert outcome(verdict, "continuity") is Outcome.UNKNOWN
    assert "the harness stood still for 4.0 s" in reason(verdict, "continuity")
    assert verdict.training_continued is True


def test_a_pause_that_only_a_host_out_of_reach_can_explain_is_unknown() -> None:
    history = stood_still(half_killed(), lambda story: story.stall(4.0), host="10.0.0.3")
    verdict = judge(history, [GAP])
    assert outcome(verdict, "continuity") is Outcome.UNKNOWN
    assert "10.0.0.3 was out of reach for 4.0 s" in reason(verdict, "continuity")


def test_a_pause_that_is_too_long_without_the_stall_fails() -> None:
    story = half_killed().stall(8.0)
    verdict = judge(stood_still(story, lambda story: story.stall(2.0)), [GAP])
    assert outcome(verdict, "continuity") is Outcome.FAIL
    assert "meanwhile the harness stood still for 2.0 s" in reason(verdict, "continuity")
    assert verdict.training_continued is False


def test_a_pause_elsewhere_fails_whatever_the_stall() -> None:
    story = half_killed().stall(5.0).train(5.0)
    verdict = judge(stood_still(story, lambda story: story.train(4.0)), [GAP])
    assert outcome(verdict, "continuity") is Outcome.FAIL


def test_whether_training_continued_is_unknown_when_only_the_stall_denies_it() -> None:
    verdict = judge(stood_still(half_killed(), lambda story: story.stall(7.0)), [GAP])
    assert verdict.training_continued is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashesIfShorter:
    """A check that fails, and has a bug that shows in a shorter run only."""

    name: ClassVar[str] = "crashes_if_shorter"
    summary: ClassVar[str] = "crashes"
    end_s: float

    def judge(self, history: History) -> Finding:
        if history.end_s < self.end_s:
            raise ZeroDivisionError("division by zero")
        return Finding(check=self.name, outcome=Outcome.FAIL, reason="so it is", samples=1)


def test_a_check_that_cannot_be_judged_again_keeps_its_fail() -> None:
    history = stood_still(half_killed(), lambda story: story.train(4.0))
    verdict = judge(history, [CrashesIfShorter(end_s=history.end_s)])
    assert outcome(verdict, "crashes_if_shorter") is Outcome.FAIL


# ---------------------------------------------------------------- the machine was busy


def sampled(story: Story, *, others: float = 0.0, own: float = 1.9, idle: float = 0.1) -> Story:
    """A second with what the harness saw of its machine of two cores."""
    data: dict[str, Json] = {
        "window_s": 1.0, "cores": 2, "load_1m": 13.0 if others else 4.0, "own_cores": own,
        "others_cores": others, "stolen_cores": 0.0, "idle_cores": idle, "waited_s": 0.1,
        "throttled_s": None, "cpu_pressure": 0.9, "io_pressure": 0.0, "memory_pressure": 0.0,
    }  # fmt: skip
    return story.say(Kind.MACHINE_SAMPLED, "harness", **data)


def test_what_others_took_from_training_is_unknown() -> None:
    story = sampled(Story()).baseline()
    for _ in range(6):
        sampled(story.stall(1.0), others=1.0, own=0.9)
    verdict = judge(story.train(20).end().history(), [replace(GAP, min_rounds=0)])
    assert outcome(verdict, "continuity") is Outcome.UNKNOWN
    assert "others took 50% of the machine" in reason(verdict, "continuity")
    assert "load 13.0 on 2 cores" in reason(verdict, "continuity")


@pytest.mark.parametrize(
    ("others", "own", "idle"),
    [(0.0, 2.0, 0.0), (0.4, 1.6, 0.0), (1.0, 0.1, 0.9)],
    ids=["the load is the run's own", "others take little", "cores are idle"],
)
def test_no_other_load_excuses_a_pause(others: float, own: float, idle: float) -> None:
    story = sampled(Story()).baseline()
    for _ in range(6):
        sampled(story.stall(1.0), others=others, own=own, idle=idle)
    verdict = judge(story.train(20).end().history(), [replace(GAP, min_rounds=0)])
    assert outcome(verdict, "continuity") is Outcome.FAIL


def test_a_machine_that_was_as_busy_in_the_baseline_excuses_nothing() -> None:
    story = sampled(Story(), others=1.0, own=0.9).baseline()
    for _ in range(6):
        sampled(story.stall(1.0), others=1.0, own=0.9)
    history = story.train(20).end().history()
    assert not disturbances(history)
    assert outcome(judge(history, [replace(GAP, min_rounds=0)]), "continuity") is Outcome.FAIL


def test_a_machine_that_was_busy_before_and_full_later_is_an_excuse() -> None:
    story = sampled(Story(), others=1.6, own=0.4).baseline()
    for _ in range(6):
        sampled(story.stall(1.0), others=1.9, own=0.1)
    verdict = judge(story.train(20).end().history(), [replace(GAP, min_rounds=0)])
    assert outcome(verdict, "continuity") is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("for_s", "back"),
    [
        (None, Return(rejoined=False, after_s=None, was_asked=False)),
        (2.0, Return(rejoined=None, after_s=None)),
    ],
    ids=["for good", "for a while"],
)
def test_a_victim_whose_whole_absence_was_disturbed_may_have_come_back_else(
    for_s: float | None, back: Return
) -> None:
    story = sampled(Story(rejoin_s=99.0)).baseline()
    story.kill("learner-1", for_s=for_s)
    for second in range(8):
        if second == 2 and for_s is not None:
            story.heal()
        sampled(story.train(1.0), others=1.5, own=0.5)
    history = story.end().history()
    (busy,) = disturbances(history)
    assert busy.start_s <= history.faults[0].injecting.time_s
    assert judge(history, [GAP]).learners_rejoined == {"learner-1": back}


def test_without_samples_of_the_baseline_nothing_is_excused() -> None:
    history = sampled(Story().baseline().stall(5.0), others=2.0, own=0.0).train(5).end().history()
    assert not disturbances(history)


def test_drops_after_a_silence_that_the_machine_made_are_unknown() -> None:
    verdict = judge(dropped(sampled(Story()).baseline(), others=1.5), [Detection()])
    assert outcome(verdict, "detection") is Outcome.UNKNOWN
    assert "others took 75% of the machine" in reason(verdict, "detection")


def test_drops_after_a_silence_on_a_machine_of_its_own_fail() -> None:
    verdict = judge(dropped(sampled(Story()).baseline(), others=0.0), [Detection()])
    assert outcome(verdict, "detection") is Outcome.FAIL


def test_a_drop_without_a_silence_fails_on_a_busy_machine_too() -> None:
    story = sampled(Story()).baseline()
    for _ in range(8):
        sampled(story.train(1.0), others=1.5, own=0.5)
    history = drop(story, "learner-1").train(5).end().history()
    assert disturbances(history)
    assert outcome(judge(history, [Detection()]), "detection") is Outcome.FAIL


def dropped(story: Story, *, others: float) -> History:
    """Nobody says anything for eight seconds; then the syncer drops a learner."""
    since_s = story.now_s
    for _ in range(8):
        sampled(story.train(1.0), others=others, own=1.9 - others)
    silent = [e for e in story.events if e.source == "harness" or e.time_s <= since_s]
    story.events[:] = [replace(event, seq=seq) for seq, event in enumerate(silent)]
    return drop(story, "learner-1").history()


def drop(story: Story, learner: str) -> Story:
    whose: dict[str, Json] = {"learner": learner, "incarnation": 1, "epoch": 2, "members": 3}
    return story.say(Kind.MEMBER_LEFT, "syncer", **whose, reason="no_progress")


def test_taking_time_out_of_a_record_keeps_its_lines() -> None:
    history = stood_still(half_killed(), lambda story: story.train(4.0))
    (stall,) = disturbances(history)
    shorter = without(history, [stall])
    assert shorter.end_s == pytest.approx(history.end_s - 4.0)
    assert [e.kind for e in shorter.events] == [e.kind for e in history.events]


def test_a_broken_sample_of_the_machine_leaves_the_finding_and_is_told() -> None:
    story = half_killed().end()
    bad: dict[str, Json] = {"round": 1, "fragment": 0, "version": 1}
    story.events[5] = replace(story.events[5], kind=Kind.ROUND_STORED, data=bad)
    history = story.history()
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="it fell", evidence=(4, 6))
    told = weighed(finding, None, history, ())
    assert told.outcome is Outcome.FAIL
    assert "event 5 (round.stored) has no 'took_s'" in told.reason
