"""The page after a run, and the page of a run on record."""

import io
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console, RenderableType

from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.events import Kind
from chaoslab.record.journal import History
from chaoslab.report.page import run_page, timeline, verdict_page
from tests.histories import Story, half_killed

PLACE = Path("runs/a story/20261120T050742Z-3f9a1c")


def shown(page: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=110, force_terminal=False)
    with console.capture() as capture:
        console.print(page)
    return capture.get()


def page_of(history: History) -> str:
    return shown(verdict_page(judge(history, [Continuity(), Rejoin()]), history, PLACE))


def test_the_two_answers_stand_before_everything_else() -> None:
    text = page_of(half_killed().end().history())
    order = ["PASS", "Did training continue?", "Did the broken learners rejoin?", "continuity",
             "injection-0", "runs/a story"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "yes  longest gap 0.25 s" in text


def test_who_did_not_come_back_is_named() -> None:
    story = Story().baseline().kill("learner-1", "learner-2").train(6).heal(restarts=False)
    text = page_of(story.restart("learner-2").train(40).settle().end().history())
    assert "FAIL" in text
    assert "learner-1 did NOT, learner-2 after" in text


def test_without_faults_nobody_had_to_come_back() -> None:
    text = page_of(Story().baseline().train(9).end().history())
    assert re.search(r"rejoin\?\s+nobody\s+was taken away", text)


def test_a_run_cut_short_is_unknown_and_not_a_yes() -> None:
    text = page_of(half_killed().finish("interrupted").history())
    assert "UNKNOWN" in text
    assert "Did training continue?           unknown" in text


def test_a_return_that_the_cut_left_open_is_unknown_and_names_who() -> None:
    story = half_killed().kill("learner-0").train(6).heal().finish("interrupted")
    text = " ".join(page_of(story.history()).split())
    assert "Did the broken learners rejoin? unknown learner-0 " in text
    assert "learner-1 after 1.00 s" in text
    assert "did NOT" not in text


def test_who_did_not_come_back_outweighs_who_had_no_time_to() -> None:
    story = Story(rejoin_s=99).baseline().kill("learner-1").train(6).heal().train(40)
    text = page_of(story.kill("learner-0").train(6).heal().finish("interrupted").history())
    assert "NO       learner-0 " in text
    assert "learner-1 did NOT" in text


def test_a_broken_line_leaves_both_answers_open() -> None:
    story = half_killed().end().altered(Kind.NODE_EXITED, lambda _: {"node": 7}, which=0)
    text = page_of(story.history())
    assert "Did training continue?           unknown" in text
    assert "Did the broken learners rejoin?  unknown" in text


def test_what_is_left_over_is_told_with_its_remedy() -> None:
    history = half_killed().end().history()
    left = {"what": "a process", "where": "pid 7", "remedy": "kill it"}
    verdict = replace(judge(history, [Continuity()]), residue=(left,))
    assert "a process in pid 7; kill it" in shown(verdict_page(verdict, history, PLACE))


def test_markup_in_a_reason_is_text_and_not_markup() -> None:
    history = half_killed().finish("broken", "[bold]died[/] of [red]").history()
    assert "[bold]died[/] of [red]" in page_of(history)


def test_the_timeline_tells_the_story_in_order() -> None:
    told = [one.text for one in timeline(half_killed().end().history())]
    order = ["injection-0 begins: process.kill on learner-1, learner-3",
             "learner-1 exited: SIGKILL",
             "injection-0 is healed: process.kill on learner-1, learner-3",
             "contributes again: learner-1 after 1.00 s, learner-3 after 1.00 s"]  # fmt: skip
    places = [told.index(part) for part in order]
    assert places == sorted(places)


def test_a_run_without_a_verdict_shows_its_timeline() -> None:
    text = shown(run_page(None, half_killed().history(), PLACE))
    assert "not judged yet" in text
    assert "Timeline" in text
