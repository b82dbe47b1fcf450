"""verdict.json, junit.xml and report.md of runs that went well and of runs that did not."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from rich.console import Console

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.convergence import LossParity
from chaoslab.checks.progress import Continuity
from chaoslab.checks.rejoin import Rejoin
from chaoslab.checks.verdict import Verdict, judge
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.record.history import History
from chaoslab.report.files import (
    junit_xml,
    read_verdict,
    report_md,
    verdict_json,
    write_reports,
)
from chaoslab.report.page import verdict_page
from chaoslab.report.web.verdict import verdict_data
from tests.histories import Story, half_killed

PLACE = Path("runs/a story/20261120T050742Z-3f9a1c")


def judged(story: Story) -> tuple[Verdict, History]:
    history = story.history()
    return judge(history, [Continuity(), Rejoin()]), history


def good() -> tuple[Verdict, History]:
    return judged(half_killed().end())


def bad() -> tuple[Verdict, History]:
    story = Story().baseline().kill("learner-1").train(6).heal(restarts=False, status="weak")
    return judged(story.train(40).settle().end())


def cases(verdict: Verdict, history: History) -> dict[str, Xml.Element]:
    suite = Xml.fromstring(junit_xml(verdict, history, PLACE)).find("testsuite")
    return {case.get("name", ""): case for case in suite.iter("testcase")}


def test_a_verdict_is_written_and_read_back(tmp_path: Path) -> None:
    verdict, history = good()
    write_reports(tmp_path, verdict, history)
    assert read_verdict(tmp_path) == verdict
    assert {path.name for path in tmp_path.iterdir()} == {"verdict.json", "junit.xml", "report.md"}
    with pytest.raises(FleetError, match="gone"):
        write_reports(tmp_path / "gone", verdict, history)


def test_a_run_without_a_verdict_has_none_and_a_broken_file_is_an_error(tmp_path: Path) -> None:
    assert read_verdict(tmp_path) is None
    for text in (b"{", b"\xff", b"[]", b"{}", b'{"outcome": "MAYBE"}'):
        (tmp_path / "verdict.json").write_bytes(text)
        with pytest.raises(FleetError, match=r"verdict\.json"):
            read_verdict(tmp_path)


def test_the_same_record_gives_the_same_bytes() -> None:
    for write in (junit_xml, report_md):
        assert write(*bad(), PLACE) == write(*bad(), PLACE)
    assert verdict_json(bad()[0]) == verdict_json(bad()[0])


def test_numbers_that_are_not_finite_do_not_break_the_json() -> None:
    finding = Finding(check="x", outcome=Outcome.FAIL, reason="r", observed=float("nan"))
    verdict = replace(good()[0], findings=(finding,))
    assert json.loads(verdict_json(verdict))["findings"][0]["observed"] == "NaN"


def test_every_finding_every_injection_and_the_verdict_is_a_testcase() -> None:
    found = cases(*good())
    on = "injection-0 process.kill on learner-1, learner-3"
    assert set(found) == {"continuity", "rejoin", on, "verdict"}
    assert not any(case.findall("failure") + case.findall("error") for case in found.values())


def test_a_failed_check_is_a_failure_that_says_why_and_weak_evidence_an_error() -> None:
    found = cases(*bad())
    assert "learner-1" in found["rejoin"].find("failure").get("message", "")
    assert found["injection-0 process.kill on learner-1"].find("error") is not None
    assert found["verdict"].find("failure") is not None


def test_a_return_that_the_cut_left_open_is_unknown_everywhere() -> None:
    verdict, history = judged(half_killed().kill("learner-0").train(6).heal().finish("aborted"))
    assert "learner-0" in (cases(verdict, history)["verdict"].findtext("error") or "")
    assert "| **unknown** | learner-0" in report_md(verdict, history, PLACE)
    kept = json.loads(verdict_json(verdict))["learners_rejoined"]["learner-0"]
    assert kept == {"rejoined": None, "after_s": None, "was_asked": True}


def test_what_was_left_out_is_named_everywhere_and_skipped() -> None:
    story = half_killed().end().altered(Kind.RUN_STARTED, lambda _: {"without": ["twin"]})
    history = story.history()
    verdict = judge(history, [Continuity(), LossParity()])
    skipped = cases(verdict, history)["loss_parity"].find("skipped")
    assert skipped is not None
    reason = verdict.not_judged[0].reason
    assert skipped.get("message") == reason
    assert "| not judged | `loss_parity` |" in report_md(verdict, history, PLACE)
    kept = json.loads(verdict_json(verdict))["not_judged"]
    assert kept == [{"check": "loss_parity", "setting": "", "need": "twin", "reason": reason}]
    page = io.StringIO()
    Console(width=200, file=page).print(verdict_page(verdict, history, PLACE))
    assert "not judged" in page.getvalue()
    assert verdict_data(verdict, history)["not_judged"] == [["loss_parity", reason]]


def test_the_suite_counts_its_cases() -> None:
    verdict, history = bad()
    suite = Xml.fromstring(junit_xml(verdict, history, PLACE)).find("testsuite")
    for attribute, tag in (
        ("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped"),
    ):  # fmt: skip
        assert suite.get(attribute) == str(len(list(suite.iter(tag))))
    assert float(suite.get("time", "nan")) == history.end_s
    told = {str(one.get("name")): str(one.get("value")) for one in suite.iter("property")}
    assert told["record"] == str(PLACE)
    assert verdict.work_lost is not None
    assert float(told["work_lost.effective_share"]) == verdict.work_lost.effective_share


def test_text_that_xml_forbids_or_markdown_would_obey_is_made_harmless() -> None:
    nasty = "died with \x00\x1b[31m & <b>|pipe|</b>\nand a second line"
    finding = Finding(check="x", outcome=Outcome.FAIL, reason=nasty)
    verdict, history = good()
    verdict = replace(verdict, findings=(finding,), outcome=Outcome.FAIL)
    assert "<b>|pipe|</b>" in (cases(verdict, history)["x"].find("failure").text or "")
    row = next(line for line in report_md(verdict, history, PLACE).splitlines() if "pipe" in line)
    assert "<b>" not in row
    assert len(re.split(r"(?<!\\)\|", row)) == 8, "six columns, and what is outside"


def test_the_report_answers_first_and_says_how_to_repeat() -> None:
    verdict, history = good()
    text = report_md(verdict, history, PLACE)
    order = ["PASS", "longest gap 0.25 s", "learner-1, learner-3 after 1.00 s",
             "`continuity`", "proved", "\nchaoslab run 'a story'"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_the_report_has_the_margin_of_each_finding() -> None:
    verdict, history = good()
    verdict = replace(verdict, findings=(replace(verdict.findings[0], margin=0.65),))
    (row,) = (line for line in report_md(verdict, history, PLACE).splitlines() if "+65%" in line)
    assert row.rstrip(" |").endswith("+65%")


def test_an_empty_record_can_be_reported() -> None:
    verdict, history = judged(Story())
    assert verdict.outcome is Outcome.UNKNOWN
    assert report_md(verdict, history, PLACE)
    assert cases(verdict, history)["verdict"].find("error") is not None
