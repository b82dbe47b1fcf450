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
from chaoslab.core.events import Json, Kind
from chaoslab.record.history import History
from chaoslab.record.journal_file import Seal
from chaoslab.report.excerpt import timeline_lines
from chaoslab.report.hints import Record
from chaoslab.report.page import run_page, verdict_page
from tests.histories import Story, half_killed

PLACE = Path("runs/a story/20261120T050742Z-3f9a1c")

RECORD = Record(
    run="3f9a1c",
    plan="runs/a story/20261120T050742Z-3f9a1c/plan.resolved.yaml",
    journal="runs/a story/20261120T050742Z-3f9a1c/journal.jsonl",
)


def shown(page: RenderableType, *, width: int = 110, crop: bool = True) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(page, crop=crop)
    return capture.get()


def test_what_is_left_over_is_told_with_its_remedy_and_no_text_is_markup() -> None:
    history = half_killed().finish("broken", "[bold]died[/] of [red]").history()
    left = {"what": "a process", "where": "pid 7", "remedy": "kill it"}
    verdict = replace(judge(history, [Continuity()]), residue=(left,))
    text = shown(verdict_page(verdict, history, PLACE))
    assert all(part in text for part in ("a process", "pid 7", "kill it"))
    assert "[bold]died[/] of [red]" in text, "markup in a reason is text"


def test_a_record_without_a_hash_chain_is_named() -> None:
    seal = Seal(lines=9, digest="abc")
    verdict = judge(half_killed().end().history(), [Continuity()])
    pages = [replace(verdict, journal=one) for one in (None, seal)]
    without, chained = (shown(verdict_page(one, half_killed().history(), PLACE)) for one in pages)
    assert "no hash chain" in without
    assert "abc" in chained
    assert "no hash chain" not in chained


def test_the_timeline_of_a_run_without_a_verdict_is_shown_in_order() -> None:
    text = shown(run_page(None, half_killed().history(), PLACE, record=RECORD))
    order = ["Timeline", "injection-0 begins", "learner-1 exited: SIGKILL",
             "injection-0 is healed", "learner-1 after 1.00 s"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def failed() -> History:
    """Learner-1 dies with no fault aimed at it, long after the beginning."""
    story = Story().baseline().train(30).exit("learner-1", signal="SIGSEGV")
    return story.train(30).end().history()


def test_after_a_fail_the_lines_of_the_finding_are_marked_and_then_quoted(tmp_path: Path) -> None:
    (tmp_path / "nodes/learner-1/1").mkdir(parents=True)
    (tmp_path / "nodes/learner-1/1/stderr.log").write_text("Segmentation fault\n")
    history = failed()
    verdict = judge(history, [Continuity()])
    assert verdict.outcome is Outcome.FAIL
    text = shown(run_page(verdict, history, tmp_path, record=RECORD))
    parts = ["Timeline", "\n▶ ", "Journal lines of unasked", '"kind":"node.exited"',
             "Standard error of learner-1", "Segmentation fault", "What to try"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    marked = re.findall(r"^▶ \s*\d.*$", text, re.MULTILINE)
    assert any("SIGSEGV" in line for line in marked)
    lines = [int(line) - 1 for line in re.findall(r"journal.jsonl:(\d+)", text)]
    assert any("SIGSEGV" in history.events[line].to_line() for line in lines)
    whole = shown(run_page(verdict, history, tmp_path, record=RECORD, whole=True))
    assert all(line in whole for line in marked)
    assert len(whole.splitlines()) > len(text.splitlines()) + 10


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        (Kind.PUSH_ACCEPTED, None, "learner-"),
        (Kind.PUSH_ACCEPTED, {}, "push.accepted"),
        (Kind.SYNCER_READY, {}, "syncer.ready"),
    ],
)
def test_a_marked_line_is_told_in_words_and_if_it_cannot_be_read_by_its_kind(
    kind: Kind, data: dict[str, Json] | None, shown: str
) -> None:
    story = Story().baseline()
    seq = story.history().of(kind)[0].seq
    if data is not None:
        story.events[seq] = replace(story.events[seq], data=data)
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="x", evidence=(seq,))
    history = story.history()
    lines = timeline_lines(history, replace(judge(history, []), findings=(finding,)))
    (marked,) = (line.sentence.text for line in lines if line.is_marked)
    assert shown in marked


def test_a_pass_shows_what_faults_did_and_no_hint() -> None:
    history = half_killed().end().history()
    verdict = judge(history, [Continuity(), Rejoin()])
    text, whole = (
        shown(run_page(verdict, history, PLACE, record=RECORD, whole=whole))
        for whole in (False, True)
    )
    for page in (text, whole):
        assert "▶" not in page
        assert "What to try" not in page
        assert "injection-0 is healed" in page
    assert ("left out" in text, "left out" in whole) == (True, False)


def test_what_failed_stands_first() -> None:
    history = half_killed().end().history()
    verdict = judge(history, [Continuity(), Rejoin(within_s=0.1)])
    text = shown(verdict_page(verdict, history, PLACE))
    assert text.index(" FAIL      rejoin") < text.index(" PASS      continuity")


def test_a_long_command_of_a_hint_is_neither_broken_nor_cut(tmp_path: Path) -> None:
    page = run_page(judge(failed(), []), failed(), tmp_path, record=RECORD, whole=True)
    command = f"    chaoslab run {RECORD.plan} --repeat 5 --until-failure"
    assert command in shown(page, width=60, crop=False).splitlines()
