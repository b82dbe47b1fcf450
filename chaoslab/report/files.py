"""A verdict as files, for machines and for reviewers: verdict.json, junit.xml, report.md.

run directory + Verdict ─► write_reports ─► the three files in the run's directory

Deterministic: the same record and verdict give the same bytes. In junit.xml only PASS is green:
FAIL is a <failure>, UNKNOWN is an <error>, because a gate that cannot tell must not let through.
What the run was never to answer is <skipped>.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from xml.etree import ElementTree as Xml

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import FleetError
from chaoslab.core.events import decode, encode
from chaoslab.core.private_files import replace_file
from chaoslab.core.regular_files import read_regular
from chaoslab.record.history import History
from chaoslab.report.sentences import seconds
from chaoslab.report.wording import (
    again,
    answers,
    begun,
    counted,
    margin,
    record_name,
    value,
    worst_first,
)

VERDICT_JSON = "verdict.json"
JUNIT_XML = "junit.xml"
REPORT_MD = "report.md"
REPORT_HTML = "report.html"

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MARKS = {Outcome.PASS: "✅ PASS", Outcome.FAIL: "❌ FAIL", Outcome.UNKNOWN: "❔ UNKNOWN"}


def write_reports(directory: Path, verdict: Verdict, history: History) -> None:
    """Write all three, each replaced whole; FleetError when the disk refuses."""
    replace_file(directory / VERDICT_JSON, verdict_json(verdict))
    replace_file(directory / JUNIT_XML, junit_xml(verdict, history, directory))
    replace_file(directory / REPORT_MD, report_md(verdict, history, directory))


def verdict_json(verdict: Verdict) -> str:
    """The text of verdict.json, which `chaoslab run --json` prints as well."""
    whole = json.loads(encode(verdict.to_json()))
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def read_verdict(directory: Path) -> Verdict | None:
    """The verdict that lies in a run's directory; None if it was never judged.

    FleetError if the file is there and is not a verdict.
    """
    path = directory / VERDICT_JSON
    try:
        return Verdict.from_json(decode(read_regular(path).decode()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FleetError(
            f"{path} cannot be read: {error}; "
            f"`chaoslab show {quote(str(directory))} --judge` writes it anew"
        ) from error


# ------------------------------------------------------------------------------------ junit.xml


def junit_xml(verdict: Verdict, history: History, directory: Path) -> str:
    """One suite: a case for each finding, each check or setting that was left out, each injection's
    evidence, and the verdict itself.

    The path of the record is a property, and the last line of what is said of the verdict.
    """
    about = {**begun(history), "record": record_name(directory), **_work_lost(verdict)}
    plan = about["plan"]
    suite = Xml.Element("testsuite", name=_legal(f"chaoslab.{plan}"), time=f"{history.end_s:.3f}")
    if history.events and (wall := history.events[0].wall):
        suite.set("timestamp", wall.removesuffix("Z"))
    properties = Xml.SubElement(suite, "properties")
    for name, text in about.items():
        Xml.SubElement(properties, "property", name=name, value=_legal(text))
    for finding in verdict.findings:
        case = _case(suite, f"{plan}.expect", finding.check)
        _judge(case, finding.outcome, finding.reason, finding.codes)
    for left in verdict.not_judged:
        case = _case(suite, f"{plan}.expect", left.name)
        Xml.SubElement(case, "skipped", message=_legal(left.reason))
    for one in verdict.injections:
        name = f"{one.id} {one.fault} on {', '.join(one.targets)}"
        proved = Outcome.PASS if one.status in ("proved", "moot") else Outcome.UNKNOWN
        _judge(_case(suite, f"{plan}.evidence", name), proved, f"{one.status}: {one.reason}")
    _judge(
        _case(suite, plan, "verdict"),
        verdict.outcome,
        _explained(verdict, history, about["record"]),
    )
    counted_tags = {
        "tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped",
    }  # fmt: skip
    for attribute, tag in counted_tags.items():
        suite.set(attribute, str(sum(1 for _ in suite.iter(tag))))
    suites = Xml.Element("testsuites")
    suites.append(suite)
    Xml.indent(suites)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _work_lost(verdict: Verdict) -> Mapping[str, str]:
    """Work lost by learners, and the effective training time ratio, as properties."""
    if verdict.work_lost is None:
        return {}
    return {f"work_lost.{key}": f"{value:g}" for key, value in asdict(verdict.work_lost).items()}


def _case(suite: Xml.Element, group: str, name: str) -> Xml.Element:
    return Xml.SubElement(
        suite, "testcase", classname=f"chaoslab.{_legal(group)}", name=_legal(name)
    )


def _judge(case: Xml.Element, outcome: Outcome, reason: str, codes: Sequence[str] = ()) -> None:
    """`type` of a problem: its outcome and codes."""
    if outcome is Outcome.PASS:
        Xml.SubElement(case, "system-out").text = _legal(reason)
        return
    tag = "failure" if outcome is Outcome.FAIL else "error"
    first_line = reason.splitlines()[0] if reason else outcome.value
    problem = Xml.SubElement(case, tag, message=_legal(first_line))
    problem.set("type", _legal(" ".join([outcome.value, *codes])))
    problem.text = _legal(reason)


def _legal(text: str) -> str:
    """Text without the characters that XML 1.0 forbids even when escaped."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _explained(verdict: Verdict, history: History, record: str) -> str:
    lines = [f"{verdict.outcome}, exit code {int(verdict.exit_code)}"]
    lines += [f"{one.question} {one.word}: {one.text}" for one in answers(verdict, history)]
    return "\n".join([*lines, f"record: {record}"])


# ------------------------------------------------------------------------------------ report.md


def report_md(verdict: Verdict, history: History, directory: Path) -> str:
    """A page for a pull request: the answers, the findings, the injections, how to repeat it."""
    about = begun(history)
    said = [(f"**{a.question}**", f"**{a.word}**", a.text) for a in answers(verdict, history)]
    parts = [
        f"## {_MARKS[verdict.outcome]}: chaos run `{about['plan']}`, seed {about['seed']}",
        _table(("question", "answer", ""), said),
        *_findings(verdict),
        *_injections(verdict),
        *(f"Left over: `{encode(left)}`" for left in verdict.residue),
        f"Record `{record_name(directory)}`, {seconds(history.end_s)}, {_ending(verdict)}.",
        f"The same schedule again:\n\n```sh\n{again(directory)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _ending(verdict: Verdict) -> str:
    seal = verdict.journal
    sealed = f", journal of {seal.lines:,} lines with the digest `{seal.digest}`" if seal else ""
    return f"exit code {int(verdict.exit_code)}{sealed}"


def _findings(verdict: Verdict) -> tuple[str, str]:
    head = ("outcome", "check", "why", "observed", "bound", "margin")
    rows = [
        (
            _MARKS[one.outcome],
            f"`{one.check}`",
            one.reason,
            value(one.observed, one.unit),
            value(one.bound, one.unit),
            margin(one),
        )
        for one in worst_first(verdict)
    ]
    rows += [("not judged", f"`{one.name}`", one.reason, "", "", "") for one in verdict.not_judged]
    return "### Findings", _table(head, rows)


def _injections(verdict: Verdict) -> tuple[str, ...]:
    head = ("injection", "fault", "on", "evidence", "what shows it")
    rows = [
        (one.id, f"`{one.fault}`", ", ".join(one.targets), one.status, one.reason)
        for one in verdict.injections
    ]
    return ("### Injections", f"{counted(verdict)}.", _table(head, rows)) if rows else ()


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Text that cannot break out of a table cell or become HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return " ".join(escaped.split())
