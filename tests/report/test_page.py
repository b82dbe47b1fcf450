"""The page after a run, and the page of a run on record."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import judge
from chaoslab.core.events import Kind
from chaoslab.record.journal import History
from chaoslab.report.excerpt import told
from chaoslab.report.hints import Record
from chaoslab.report.page import run_page, verdict_page
from tests.histories import Story, half_killed

PLACE = Path("runs/a story/20261120T050742Z-3f9a1c")

RECORD = Record(
    run="3f9a1c",
    plan="runs/a story/20261120T050742Z-3f9a1c/plan.resolved.yaml",
    journal="runs/a story/20261120T050742Z-3f9a1c/journal.jsonl",
)


def shown(page: RenderableType, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(page)
    return capture.get()


def page_of(history: History) -> str:
    return shown(verdict_page(judge(history, [Continuity(), Rejoin()]), history, PLACE))


def test_what_is_left_over_is_told_with_its_remedy() -> None:
    history = half_killed().end().history()
    left = {"what": "a process", "where": "pid 7", "remedy": "kill it"}
    verdict = replace(judge(history, [Continuity()]), residue=(left,))
    assert "a process in pid 7; kill it" in shown(verdict_page(verdict, history, PLACE))


def test_markup_in_a_reason_is_text_and_not_markup() -> None:
    history = half_killed().finish("broken", "[bold]died[/] of [red]").history()
    assert "[bold]died[/] of [red]" in page_of(history)


def test_the_timeline_of_a_run_without_a_verdict_is_shown_in_order() -> None:
    text = shown(run_page(None, half_killed().history(), PLACE, record=RECORD))
    order = ["Timeline", "injection-0 begins", "learner-1 exited: SIGKILL",
             "injection-0 is healed", "learner-1 after 1.00 s"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def failed() -> History:
    """Learner-1 dies with no fault aimed at it, long after the beginning."""
    story = Story().baseline().train(80).exit("learner-1", signal="SIGSEGV")
    return story.train(80).end().history()


def page_of_failed(place: Path, *, whole: bool = False) -> str:
    history = failed()
    verdict = judge(history, [Continuity()])
    assert verdict.outcome is Outcome.FAIL
    return shown(run_page(verdict, history, place, record=RECORD, whole=whole))


def test_after_a_fail_the_lines_of_the_finding_are_marked_with_two_seconds_around(
    tmp_path: Path,
) -> None:
    text = page_of_failed(tmp_path)
    (marked,) = re.findall(r"^▶ .*s  .*$", text, re.MULTILINE)
    assert marked.endswith("learner-1 exited: SIGSEGV")
    whole = page_of_failed(tmp_path, whole=True)
    assert marked in whole
    assert len(whole.splitlines()) > len(text.splitlines()) + 10


def test_a_marked_line_that_is_a_sample_is_told_in_words() -> None:
    history = Story().baseline().history()
    (pushed, *_) = history.of(Kind.PUSH_ACCEPTED)
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="x", evidence=(pushed.seq,))
    lines = told(history, replace(judge(history, []), findings=(finding,)))
    (marked,) = (line.sentence.text for line in lines if line.is_marked)
    assert str(pushed.data["learner"]) in marked


@pytest.mark.parametrize("kind", [Kind.PUSH_ACCEPTED, Kind.SYNCER_READY])
def test_a_marked_line_that_cannot_be_read_is_told_by_its_kind(kind: Kind) -> None:
    history = Story().baseline().history()
    broken = replace(history.of(kind)[0], data={})
    events = [broken if one.seq == broken.seq else one for one in history.events]
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="x", evidence=(broken.seq,))
    lines = told(History(events), replace(judge(history, []), findings=(finding,)))
    (marked,) = (line.sentence.text for line in lines if line.is_marked)
    assert kind in marked
    assert broken.source in marked


def test_after_a_fail_follow_journal_standard_error_and_a_hint(tmp_path: Path) -> None:
    (tmp_path / "nodes/learner-1/1").mkdir(parents=True)
    (tmp_path / "nodes/learner-1/1/stderr.log").write_text("Segmentation fault\n")
    text = page_of_failed(tmp_path)
    parts = ["Timeline", "Journal lines of unasked", '"kind":"node.exited"',
             "Standard error of learner-1", "Segmentation fault", "What to try"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    (line,) = re.findall(r"journal.jsonl:(\d+)", text)
    (exited,) = [e for e in failed().events if "SIGSEGV" in e.to_line()]
    assert int(line) == exited.seq + 1


def test_a_pass_shows_its_whole_timeline_and_no_hint() -> None:
    history = half_killed().end().history()
    verdict = judge(history, [Continuity(), Rejoin()])
    text = shown(run_page(verdict, history, PLACE, record=RECORD))
    assert "▶" not in text
    assert "What to try" not in text


def test_a_long_command_of_a_hint_is_neither_broken_nor_cut(tmp_path: Path) -> None:
    page = run_page(judge(failed(), []), failed(), tmp_path, record=RECORD, whole=True)
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    with console.capture() as capture:
        console.print(page, crop=False)
    command = f"    chaoslab run {RECORD.plan} --repeat 5 --until-failure"
    assert command in capture.get().splitlines()
