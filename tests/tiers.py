"""Tiers of tests: which tests a run of pytest takes, and what its last lines say.

    quick   no mark             every change; needs Python alone        pytest
    gate    pytest.mark.gate    each fleet, link and system once        pytest --tier gate
    deep    pytest.mark.deep    many seeds, all fleets, long runs       make deep

The nearest mark counts: that of a parameter, a test, its class, its module. A test that is named by
its file or its id runs whatever its tier.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.codes import Code

TIERS = ("quick", "gate", "deep")
PARTS = ("plans", "soak", "trainers", "kubernetes", "docker", "alone", "others")
"""Of the deep tier. A test belongs to the first whose mark it has, or to the others."""
LIMITS_S = {"quick": 240, "gate": 720, "deep": 2400}
"""Seconds that a tier, or a part of the deep one, may take on two idle cores."""
QUICK_TEST_S = 1.0
DISTURBED_MOST = 2
"""Real runs of a session that may be UNKNOWN because others took the machine; more fail it."""
_NAMED_MOST = 12
_NEEDS = ("soak", "trainers", "docker", "kubernetes", "toxiproxy")
_DISTURBED = {Code.MACHINE_STALLED, Code.STEP_TIME_NOT_KEPT}


def tier_of(item: pytest.Item) -> str:
    """One of TIERS."""
    for node in reversed(item.listchain()):
        names = [mark.name for mark in node.own_markers if mark.name in TIERS]
        if names:
            return names[-1]  # a parameter's come behind those of its test
    return "quick"


def part_of(item: pytest.Item) -> str:
    """One of PARTS, for a test of the deep tier."""
    return next((part for part in PARTS if item.get_closest_marker(part)), PARTS[-1])


def needs_part(item: pytest.Item) -> bool:
    """Whether a test needs more than Python, or repeats itself for minutes."""
    return any(item.get_closest_marker(mark) for mark in _NEEDS)


def is_disturbed(record: Path) -> bool:
    """Whether a run is UNKNOWN, and for no other reason than that others took the machine."""
    verdict = _verdict(record)
    findings = verdict.get("findings", [])
    doubts = [one for one in findings if one["outcome"] == Outcome.UNKNOWN]
    return verdict.get("outcome") == Outcome.UNKNOWN and all(
        _DISTURBED & set(one["codes"]) for one in doubts
    )


class TierReport:
    """Plugin of the process that prints: what was not run, what was slow, and last what failed."""

    def __init__(self, config: pytest.Config) -> None:
        self._tiers = tuple(config.getoption("--tier"))
        self._began_s = time.monotonic()
        self._spent_s: Counter[str] = Counter()
        self._quick_s: Counter[str] = Counter()
        self._failed: list[pytest.TestReport | pytest.CollectReport] = []
        self._disturbed: dict[str, str] = {}
        """One test for each record."""
        self._passed = config.option.passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        facts = dict(report.user_properties)
        self._spent_s[report.nodeid.partition("::")[0]] += report.duration
        if facts.get("tier") == "quick":
            self._quick_s[report.nodeid] += report.duration
        if report.failed:
            self._failed.append(report)
        if "disturbed" in facts:
            self._disturbed.setdefault(str(facts.get("record", report.nodeid)), report.nodeid)
        if self._passed and report.when == "call" and report.passed:
            with self._passed.open("a", encoding="utf-8") as file:
                file.write(f"{facts['id']}\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed.append(report)

    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> tuple[str, str, str] | None:
        """A run that was disturbed is counted as such, neither as passed nor as failed."""
        if "disturbed" in dict(getattr(report, "user_properties", ())):
            return "disturbed", "D", "DISTURBED"
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if len(self._disturbed) > DISTURBED_MOST and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield
        lines = [*self._slow(), *self._not_run(terminalreporter), *self._red()]
        if lines:
            terminalreporter.section("tiers")
        for line in lines:
            terminalreporter.line(line)
        if self._passed:
            counts = {name: len(of) for name, of in terminalreporter.stats.items() if name}
            facts = {**counts, "seconds": round(time.monotonic() - self._began_s)}
            self._passed.with_suffix(".json").write_text(f"{json.dumps(facts)}\n")

    def _slow(self) -> Iterator[str]:
        took_s = time.monotonic() - self._began_s
        if self._tiers != ("quick",):
            longest = self._spent_s.most_common(_NAMED_MOST)
            yield "longest: " + ", ".join(f"{name} {spent:.0f} s" for name, spent in longest)
        slow = [(name, s) for name, s in self._quick_s.most_common() if s > QUICK_TEST_S]
        yield from (
            f"quick test of {spent:.1f} s: {name[:160]}" for name, spent in slow[:_NAMED_MOST]
        )
        if len(slow) > _NAMED_MOST:
            yield f"and {len(slow) - _NAMED_MOST} more quick tests of over {QUICK_TEST_S:g} s"
        limit_s = sum(LIMITS_S[tier] for tier in self._tiers)
        if took_s > limit_s:
            yield f"{'+'.join(self._tiers)}: took {took_s:.0f} s, limit {limit_s} s on idle cores"

    def _not_run(self, reporter: pytest.TerminalReporter) -> Iterator[str]:
        reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", ()))
        yield from (f"skipped {count}: {why}" for why, count in reasons.most_common(_NAMED_MOST))
        if len(reasons) > _NAMED_MOST:
            yield f"skipped for {len(reasons) - _NAMED_MOST} more reasons: `pytest -rs` has them"
        for name in self._disturbed.values():
            yield f"disturbed, others took the machine: {name}"
        commands = {"quick": "pytest", "gate": "pytest --tier gate", "deep": "make deep"}
        left = [f"{tier} (`{commands[tier]}`)" for tier in TIERS if tier not in self._tiers]
        if left:
            yield f"not run: {', '.join(left)}"

    def _red(self) -> Iterator[str]:
        for report in self._failed:
            yield f"FAILED {report.nodeid}"
            if record := dict(getattr(report, "user_properties", ())).get("record"):
                yield from (f"  {line}" for line in verdict_lines(Path(str(record))))


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in a line."""
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ").partition("\n")[0]


def verdict_lines(record: Path) -> Iterator[str]:
    """The verdict of a run directory, what of it is not PASS, and where it is."""
    if verdict := _verdict(record):
        yield f"verdict {verdict['outcome']}"
        for finding in verdict["findings"]:
            if finding["outcome"] != Outcome.PASS:
                yield f"{finding['outcome']} {finding['check']}: {finding['reason']}"
    yield f"record {record}"


def _verdict(record: Path) -> Mapping[str, Any]:
    """verdict.json; empty for a run that was not judged."""
    file = record / "verdict.json"
    found: Mapping[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found


def newest_record(folder: Path, *, since: float) -> Path | None:
    """Of the run directories below it, without twins, the one that was written to last.

    `since`: and not before this time, in seconds since the epoch.
    """
    journals = [path for path in folder.rglob("journal.jsonl") if path.parent.name != "twin"]
    written = {path: path.stat().st_mtime for path in journals if ".twins" not in path.parts}
    newest = max(written, key=lambda path: written[path], default=None)
    return newest.parent if newest and written[newest] >= since else None
