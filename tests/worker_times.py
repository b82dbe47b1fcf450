"""What the workers of `pytest -n` did, told at its end: who waited for whom.

    gw0: real 2,710 s, others 120 s; nothing to do for the last 2 s
    longest of real: tests/test_hosts_end_to_end.py 251 s, …

A group is what `tests/conftest.py` gives to one worker: trainings, patient tests, the cluster's.
"""

import time
from collections import Counter, defaultdict

import pytest

MOST = 12
"""Modules that are named of each group."""


class WorkerTimes:
    """A plugin of the process that deals the tests."""

    def __init__(self) -> None:
        self._by_worker: dict[str, Counter[str]] = defaultdict(Counter)
        self._by_group: dict[str, Counter[str]] = defaultdict(Counter)
        self._last_s: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Setup, call and teardown of one test."""
        worker = getattr(report, "worker_id", "")
        if not worker:
            return
        group, module = group_of(report.nodeid), report.nodeid.partition("::")[0]
        self._by_worker[worker][group] += report.duration
        self._by_group[group][module] += report.duration
        self._last_s[worker] = time.monotonic()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Before pytest's own last line."""
        if not self._by_worker:
            return
        terminalreporter.section("workers")
        for line in self.lines(time.monotonic()):
            terminalreporter.line(line)

    def lines(self, now_s: float) -> list[str]:
        """One for each worker, and one for each group."""
        workers = [
            f"{worker}: {said(spent)}; nothing to do for the last {now_s - last_s:.0f} s"
            for worker, spent in sorted(self._by_worker.items())
            for last_s in (self._last_s[worker],)
        ]
        groups = [
            f"longest of {group}: {said(spent)}" for group, spent in sorted(self._by_group.items())
        ]
        return workers + groups


def group_of(nodeid: str) -> str:
    """Of a test, by what xdist writes behind its name."""
    place = nodeid.rfind("@")
    group = nodeid[place + 1 :] if place > nodeid.rfind("]") else ""
    if group.startswith("patient tests/"):
        return "patient"
    return "others" if "/" in group else group or "others"


def said(spent: Counter[str]) -> str:
    """The most first."""
    return ", ".join(f"{name} {spent_s:,.0f} s" for name, spent_s in spent.most_common(MOST))
