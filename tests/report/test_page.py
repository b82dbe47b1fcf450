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


def test_the_page_in_a_browser_is_named_once_it_is_there(tmp_path: Path) -> None:
    history = half_killed().end().history()
    verdict = judge(history, [Continuity()])
    assert "report.html" not in shown(verdict_page(verdict, history, tmp_path))
    (tmp_path / "report.html").touch()
    assert f"report  {tmp_path / 'report.html'}" in shown(verdict_page(verdict, history, tmp_path))


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
    texts = [one.sentence.text for one in told(half_killed().end().history())]
    order = ["injection-0 begins: process.kill on learner-1, learner-3",
             "learner-1 exited: SIGKILL",
             "injection-0 is healed: process.kill on learner-1, learner-3",
             "contributes again: learner-1 after 1.00 s, learner-3 after 1.00 s"]  # fmt: skip
    places = [texts.index(part) for part in order]
    assert places == sorted(places)


def test_a_run_without_a_verdict_shows_its_timeline() -> None:
    text = shown(run_page(None, half_killed().history(), PLACE, record=RECORD))
    assert "not judged yet" in text
    assert "Timeline" in text


def test_why_training_goes_on_at_its_end_is_true_before_and_after_the_last_heal() -> None:
    history = half_killed().end().history()
    (held,) = (one for one in told(history) if "reached its end" in one.sentence.text)
    assert held.sentence.text == (
        "training reached its end (its stop rule is met); it goes on until all are back, and as "
        "many rounds have followed as before the faults"
    )
    (healed,) = history.of(Kind.FAULT_HEALED)
    assert held.sentence.time_s > healed.time_s


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
    assert re.search(r"…  \d+ lines left out", text)
    assert "a story begins" not in text
    whole = page_of_failed(tmp_path, whole=True)
    assert marked in whole
    assert "a story begins" in whole
    assert "left out" not in whole


def test_a_long_sentence_of_the_timeline_goes_on_below_its_own_beginning() -> None:
    text = shown(run_page(None, half_killed().history(), PLACE, record=RECORD), width=50)
    lines = text[text.index("Timeline") :].splitlines()[1:]
    assert all(len(line) <= 50 for line in lines)
    begun = [bool(re.match(r".{9} s  \S", line)) for line in lines]
    assert not all(begun)
    rest = [line for line, is_begun in zip(lines, begun, strict=True) if not is_begun]
    assert all(re.match(r" {13}\S", line) for line in rest)


def test_a_marked_line_that_is_a_sample_is_told_in_words() -> None:
    history = Story().baseline().history()
    (pushed, *_) = history.of(Kind.PUSH_ACCEPTED)
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="x", evidence=(pushed.seq,))
    lines = told(history, replace(judge(history, []), findings=(finding,)))
    (marked,) = (line.sentence.text for line in lines if line.is_marked)
    assert re.match(r"the syncer took a push of learner-\d \(incarnation 1\), round ", marked)


@pytest.mark.parametrize("kind", [Kind.PUSH_ACCEPTED, Kind.SYNCER_READY])
def test_a_marked_line_that_cannot_be_read_is_told_by_its_kind(kind: Kind) -> None:
    history = Story().baseline().history()
    broken = replace(history.of(kind)[0], data={})
    events = [broken if one.seq == broken.seq else one for one in history.events]
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="x", evidence=(broken.seq,))
    lines = told(History(events), replace(judge(history, []), findings=(finding,)))
    (marked,) = (line.sentence.text for line in lines if line.is_marked)
    assert marked == f"{kind} of {broken.source}, whose data is malformed"


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
    assert "--repeat 5" in text[text.index("What to try") :]


def test_of_a_node_that_wrote_nothing_no_hint_says_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "nodes/learner-1/1").mkdir(parents=True)
    (tmp_path / "nodes/learner-1/1/stderr.log").touch()
    text = page_of_failed(tmp_path)
    assert "it wrote nothing" in text
    tried = text[text.index("What to try") :]
    assert "learner-1 wrote nothing to standard error" in tried
    assert "wrote to standard error above" not in tried


def test_a_pass_shows_its_whole_timeline_and_no_hint() -> None:
    history = half_killed().end().history()
    verdict = judge(history, [Continuity(), Rejoin()])
    text = shown(run_page(verdict, history, PLACE, record=RECORD))
    assert "▶" not in text
    assert "left out" not in text
    assert "What to try" not in text


def test_a_long_command_of_a_hint_is_neither_broken_nor_cut(tmp_path: Path) -> None:
    page = run_page(judge(failed(), []), failed(), tmp_path, record=RECORD, whole=True)
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    with console.capture() as capture:
        console.print(page, crop=False)
    command = f"    chaoslab run {RECORD.plan} --repeat 5 --until-failure"
    assert command in capture.get().splitlines()
