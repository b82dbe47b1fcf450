"""Numbers of a verdict in words."""

import re
from dataclasses import replace

import pytest

from chaoslab.checks.answers import StopReason
from chaoslab.checks.base import Unit
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.events import Json, Kind
from chaoslab.record.history import History
from chaoslab.report.sentences import Tone
from chaoslab.report.wording import answers, percent, value
from tests.histories import Story, half_killed
from tests.trainers.script_story import ScriptStory


@pytest.mark.parametrize(
    ("share", "text"),
    [(-0.998, "-99.8%"), (-1.0, "-100%"), (0.0, "+0%"), (-0.002, "-0.2%"), (0.123, "+12%")],
)
def test_a_share_is_not_rounded_to_a_bound_that_it_does_not_reach(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("found", "unit", "text"),
    [
        (0.283, Unit.SECONDS, "0.283 s"),
        (10, Unit.SECONDS, "10 s"),
        (0.8822, Unit.SHARE, "88.22%"),
        (0.65, Unit.SHARE, "65%"),
        (1.0, Unit.FACTOR, "1x"),
        (0, Unit.VIOLATIONS, "0 violations"),
        (1, Unit.VIOLATIONS, "1 violation"),
        (1200, Unit.LINES, "1,200 lines"),
        (1, Unit.SECONDS, "1 s"),
        (3, "widgets", "3 widgets"),
        (1.5, "", "1.5"),
        (True, "", "yes"),
        (False, "", "no"),
        (None, Unit.SECONDS, ""),
        ("NaN", Unit.SHARE, "NaN"),
    ],
)
def test_what_was_observed_is_said_with_its_unit(found: Json, unit: str, text: str) -> None:
    assert value(found, unit) == text


def words(story: Story) -> tuple[str, str]:
    """Of the two answers."""
    history = story.history()
    continued, rejoined, *_ = answers(judge(history, [Continuity(), Rejoin()]), history)
    return continued.word, rejoined.word


def test_the_two_answers_are_yes_no_unknown_or_none_due() -> None:
    assert words(half_killed().end()) == ("yes", "yes")
    half_back = Story().baseline().kill("learner-1", "learner-2").train(6).heal(restarts=False)
    assert words(half_back.restart("learner-2").train(40).settle().end()) == ("yes", "NO")
    assert words(Story().baseline().train(9).end()) == ("yes", "none due")
    assert words(half_killed().finish("interrupted")) == ("unknown", "yes")
    no_time = half_killed().kill("learner-0").train(6).heal().finish("interrupted")
    assert words(no_time) == ("unknown", "unknown")
    outweighed = Story(rejoin_s=99).baseline().kill("learner-1").train(6).heal().train(40)
    outweighed.kill("learner-0").train(6).heal().finish("interrupted")
    assert words(outweighed) == ("unknown", "NO")
    broken = half_killed().end().altered(Kind.NODE_EXITED, lambda _: {"node": 7}, which=0)
    assert words(broken) == ("unknown", "unknown")


def test_what_is_the_same_of_several_victims_is_said_once() -> None:
    history = half_killed().train(9).end().history()
    rejoined = answers(judge(history, []), history)[1]
    assert rejoined.text.startswith("learner-1, learner-3 after ")
    assert rejoined.text.count("since") == 1


def test_a_pause_that_a_fault_on_the_syncer_explains_is_told_with_the_yes() -> None:
    away = Story().baseline().lose_syncer(for_s=60).stall(60).regain_syncer().train(20).settle()
    history = away.end().history()
    continued, *_ = answers(judge(history, []), history)
    assert continued.word == "yes"
    assert re.fullmatch(r"no round for 6\d.* s from .*`crash` \(process.kill\).*", continued.text)


def test_what_came_after_a_return_is_told_and_is_no_plain_yes() -> None:
    died = half_killed().train(6).strike("learner-3").train(12).settle().end()
    for story, tone in ((half_killed().train(9).end(), Tone.GOOD), (died, Tone.FAULT)):
        history = story.history()
        verdict = judge(history, [])
        rejoined = answers(verdict, history)[1]
        since = verdict.worked_since["learner-3"]
        assert (rejoined.word, rejoined.tone) == ("yes", tone)
        assert f"{since.contributed:,} of {since.rounds:,} rounds" in rejoined.text
        assert (since.left is StopReason.DIED) is (tone is Tone.FAULT)


def heard_late(history: History) -> History:
    """The same run, but the harness heard 0.9 s late of a merge near the end and what followed."""
    merged = history.of(Kind.ROUND_MERGED)[-20]
    heard_s = merged.time_s + 0.9
    return History(
        replace(
            event,
            time_s=max(event.time_s, heard_s) if event.seq >= merged.seq else event.time_s,
            node_s=None if event.source == "harness" else event.time_s,
        )
        for event in history.events
    )


def test_an_answer_is_green_only_if_the_check_of_the_same_thing_holds() -> None:
    history = half_killed().train(9).end().history()
    soon, long = Rejoin(within_s=0.1), Rejoin(within_s=60)
    never = Continuity(max_gap=0.1)
    for checks, tones in (
        ([Continuity(), long], [Tone.GOOD, Tone.GOOD]),
        ([Continuity(), soon], [Tone.GOOD, Tone.FAULT]),
        ([never, long], [Tone.FAULT, Tone.GOOD]),
    ):
        first, second, *_ = answers(judge(history, checks), history)
        assert [first.tone, second.tone] == tones
        assert (first.word, second.word) == ("yes", "yes")


def test_answer_and_check_tell_the_same_gap_at_the_same_time() -> None:
    in_time = half_killed().end().history()
    for history in (in_time, heard_late(in_time)):
        verdict = judge(history, [Continuity()])
        text = answers(verdict, history)[0].text
        told = re.fullmatch(r"longest gap (.+ s), at (.+ s)", text)
        length, start = told.groups()
        reason = verdict.by_name["continuity"].reason
        assert f"no round for {length}, from {start} on, " in reason
        assert length == "0.25 s"


def test_of_a_worker_that_reports_nothing_itself_the_answer_says_so() -> None:
    story = ScriptStory(is_one_for_all=True).train(30).measure().train(5)
    history = story.kill("worker-1").train(3).heal("worker-1", at=38).train(40).end().history()
    said = answers(judge(history, [Rejoin()]), history)[1]
    assert "workers" in said.question
    assert "only its process" in said.text


@pytest.mark.parametrize(("ends", "how"), [(False, "ran on"), (True, "started again")])
def test_those_that_no_fault_hit_are_told_apart_from_the_killed(how: str, *, ends: bool) -> None:
    story = ScriptStory().start("launcher").train(20).measure().train(20).kill("worker-1")
    if ends:
        story.exit("worker-0").exit("launcher", code=1).start("launcher").start("worker-0")
        story.workers["worker-0"].step = 40
    history = story.heal("worker-1", at=40).train(30).end().history()
    verdict = judge(history, [Rejoin()])
    said = answers(verdict, history)[1].text
    assert said.startswith("worker-1 ")
    assert f"worker-0 not hit, {how}" in said
    assert "worker-0 not hit" in verdict.by_name["rejoin"].reason


def test_of_lines_that_nothing_tells_apart_no_answer_is_yes() -> None:
    story = ScriptStory(workers=1).train(20).measure().train(20)
    story.workers["worker-0"].step = 0
    verdict = judge(story.kill("worker-0").heal("worker-0", at=40).train(60).end().history(), [])
    assert [one.word for one in answers(verdict, story.history())] == ["yes", "yes", "none"]
    story = ScriptStory(workers=1).train(20).measure().train(20)
    story.workers["worker-0"].step = 0
    story.train(3).kill("worker-0").heal("worker-0", at=40).train(60).end()
    verdict = judge(story.history(), [])
    assert [one.word for one in answers(verdict, story.history())] == ["unknown", "unknown"]
