"""A harness or a machine that was stalled excuses what only it can have done, and nothing else."""

from collections.abc import Callable
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
from chaoslab.record.history import History
from tests.checks.cases import Tell, sampled
from tests.checks.stalled import stalled
from tests.histories import Story, half_killed

GAP = Continuity(max_gap=3.0)


def outcome(verdict: Verdict, check: str) -> Outcome:
    return next(finding.outcome for finding in verdict.findings if finding.check == check)


def reason(verdict: Verdict, check: str) -> str:
    return next(finding.reason for finding in verdict.findings if finding.check == check)


# ---------------------------------------------------------------- the harness stalled


@pytest.mark.parametrize("length_s", [4.0, 7.0])
def test_training_that_went_on_while_the_harness_stalled_passes(length_s: float) -> None:
    history = stalled(half_killed(), lambda story: story.train(length_s))
    verdict = judge(history, [GAP, Rejoin(), Survivors(), Detection()])
    assert verdict.training_continued is True
    assert verdict.outcome is Outcome.PASS, verdict.explain()
    assert verdict.longest_gap_s < 1.0


def stall(for_s: float) -> Callable[[Story], object]:
    return lambda story: story.stall(for_s)


@pytest.mark.parametrize(
    ("before", "meanwhile", "found", "continued"),
    [
        (half_killed, stall(4.0), Outcome.UNKNOWN, True),
        (half_killed, stall(7.0), Outcome.UNKNOWN, None),
        (lambda: half_killed().stall(8.0), stall(2.0), Outcome.FAIL, False),
        (
            lambda: half_killed().stall(5.0).train(5.0),
            lambda story: story.train(4.0),
            Outcome.FAIL,
            False,
        ),
    ],
    ids=["too long only with it", "much too long", "too long without it", "elsewhere"],
)
def test_a_stall_excuses_the_pause_that_it_can_explain_alone(
    before: Tell,
    meanwhile: Callable[[Story], object],
    found: Outcome,
    continued: bool | None,
) -> None:
    verdict = judge(stalled(before(), meanwhile), [GAP])
    assert outcome(verdict, "continuity") is found
    assert verdict.training_continued is continued


@pytest.mark.parametrize("host", ["10.0.0.3", ""])
def test_a_finding_names_the_stalled_part_and_its_time(host: str) -> None:
    verdict = judge(stalled(half_killed(), stall(4.0), host=host), [GAP])
    assert outcome(verdict, "continuity") is Outcome.UNKNOWN
    assert (host or "the harness") in reason(verdict, "continuity")
    assert "4.0 s" in reason(verdict, "continuity")


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
    history = stalled(half_killed(), lambda story: story.train(4.0))
    verdict = judge(history, [CrashesIfShorter(end_s=history.end_s)])
    assert outcome(verdict, "crashes_if_shorter") is Outcome.FAIL


# ---------------------------------------------------------------- the machine was busy


def stalled_with(before: tuple[float, ...] | None, meanwhile: tuple[float, ...]) -> History:
    """Six seconds without a round, with samples (others, own, idle) before and meanwhile."""

    def sample(story: Story, cores: tuple[float, ...]) -> Story:
        others, own, idle = cores
        return sampled(story, others=others, own=own, idle=idle)

    story = sample(Story(), before) if before else Story()
    story.baseline()
    for _ in range(6):
        sample(story.stall(1.0), meanwhile)
    return story.train(20).end().history()


def test_a_busy_machine_on_which_no_node_runs_excuses_nothing() -> None:
    history = stalled_with(CALM, (1.6, 0.3, 0.1))
    elsewhere = [
        replace(e, data={**e.data, "nodes": 0}) if e.kind is Kind.MACHINE_SAMPLED else e
        for e in history.events
    ]
    check = Continuity()
    assert outcome(judge(history, [check]), check.name) is Outcome.UNKNOWN
    assert outcome(judge(History(elsewhere), [check]), check.name) is Outcome.FAIL


CALM = (0.0, 1.9, 0.1)


@pytest.mark.parametrize(
    ("before", "meanwhile", "found"),
    [
        (CALM, (1.0, 0.9, 0.1), Outcome.UNKNOWN),
        (CALM, (0.0, 2.0, 0.0), Outcome.FAIL),
        (CALM, (0.4, 1.6, 0.0), Outcome.FAIL),
        (CALM, (1.0, 0.1, 0.9), Outcome.FAIL),
        ((1.0, 0.9, 0.1), (1.0, 0.9, 0.1), Outcome.FAIL),
        ((1.6, 0.4, 0.1), (1.9, 0.1, 0.1), Outcome.UNKNOWN),
        (None, (2.0, 0.0, 0.1), Outcome.FAIL),
    ],
    ids=[
        "others take half", "the load is the run's own", "others take little", "cores are idle",
        "as busy before", "busy before, and full now", "no samples before",
    ],
)  # fmt: skip
def test_only_more_load_of_others_excuses_a_pause(
    before: tuple[float, ...] | None, meanwhile: tuple[float, ...], found: Outcome
) -> None:
    history = stalled_with(before, meanwhile)
    verdict = judge(history, [replace(GAP, min_rounds=0)])
    assert outcome(verdict, "continuity") is found
    assert bool(disturbances(history)) is (found is Outcome.UNKNOWN)
    assert found is Outcome.FAIL or "load 13.0 on 2 cores" in reason(verdict, "continuity")


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


@pytest.mark.parametrize(("others", "found"), [(1.5, Outcome.UNKNOWN), (0.0, Outcome.FAIL)])
def test_drops_after_a_silence_are_unknown_if_the_machine_made_it(
    others: float, found: Outcome
) -> None:
    verdict = judge(dropped(sampled(Story()).baseline(), others=others), [Detection()])
    assert outcome(verdict, "detection") is found


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
    history = stalled(half_killed(), lambda story: story.train(4.0))
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
