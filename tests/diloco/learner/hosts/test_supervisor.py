"""The supervisor of a learner of several hosts, by real processes that train nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_identity import is_running
from chaoslab.diloco.learner.hosts.membership import PEER_LOST

pytestmark = [pytest.mark.deep]


class Supervised:
    """A running supervisor, and what was printed so far."""

    def __init__(self, folder: Path, do: str, *flags: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.diloco.learner.hosts.little_host", "--hosts", "2"),
                *("--name", "learner-1", "--directory", str(folder), *flags, f"do={do}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.lines: list[str] = []

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    def until(self, *wanted: str) -> None:
        """Read until all of these lines were printed."""
        while not set(wanted) <= set(self.lines):
            line = self._output.readline()
            assert line, self.lines
            self.lines.append(line.strip())

    def tell(self, **request: object) -> None:
        """One test hook."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Its exit status, once it has ended."""
        self.lines += [line.strip() for line in self._output]
        return self._process.wait(30)

    def close(self) -> None:
        """Nothing of it is left."""
        self._process.kill()
        self._process.communicate()

    def said(self, kind: Kind) -> list[dict[str, object]]:
        """Data of its events of a kind."""
        events = [json.loads(line) for line in self.lines if line.startswith("{")]
        return [event["data"] for event in events if event["kind"] == kind.value]

    @property
    def pids(self) -> list[int]:
        """Of its processes."""
        return [int(str(data["pid"])) for data in self.said(Kind.HOST_STARTED)]


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def begin(do: str, *flags: str) -> Supervised:
        started.append(Supervised(tmp_path / "learner-1", do, *flags))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def both_run(start: Start, *flags: str) -> Supervised:
    found = start("wait,wait", *flags)
    found.until("host 0: runs", "host 1: runs")
    return found


def test_incarnations_are_counted_once_for_all_hosts(start: Start) -> None:
    for incarnation in (1, 2):
        found = start("0,0")
        assert found.end() == 0
        assert {data["incarnation"] for data in found.said(Kind.HOST_STARTED)} == {incarnation}


@pytest.mark.parametrize(
    ("host", "number"),
    [pytest.param(1, signal.SIGKILL, marks=pytest.mark.gate), (0, signal.SIGABRT)],
)
def test_a_process_that_dies_takes_the_learner_down_in_the_same_way(
    start: Start, host: int, number: signal.Signals
) -> None:
    found = both_run(start)
    os.kill(found.pids[host], number)
    assert found.end() == -number
    (lost,) = found.said(Kind.HOST_LOST)
    assert (lost["host"], lost["signal"]) == (host, number.name)
    assert not any(map(is_running, found.pids))


def test_test_hooks_reach_host_0_and_those_of_a_chip_its_host(start: Start) -> None:
    found = both_run(start, "--test-hooks")
    slow, chip = '{"do": "slow", "factor": 2}', '{"do": "chip", "index": 1}'
    found.tell(do="slow", factor=2)
    found.tell(do="chip", index=1)
    found.until(f"host 0: {slow}", f"host 1: {chip}")
    assert f"host 1: {slow}" not in found.lines
    assert f"host 0: {chip}" not in found.lines


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "host", "index": 2, "signal": "SIGKILL"},
        {"do": "host", "index": 1, "signal": "SIGNOTHING"},
        {"do": "host"},
        {"index": "first"},
    ],
)
def test_a_hook_that_cannot_be_is_left_to_host_0(start: Start, request_: dict[str, object]) -> None:
    found = both_run(start, "--test-hooks")
    found.tell(**request_)
    found.until(f"host 0: {json.dumps(request_)}")


@pytest.mark.parametrize(
    ("do", "code", "lost"),
    [
        ("3,wait", 3, []),
        ("wait,1", 1, [(1, "exit code 1")]),
        (f"wait,{PEER_LOST}", PEER_LOST, [(0, "no heartbeat")]),
    ],
    ids=["of host 0", "of another", "host 0 was lost by another"],
)
def test_an_error_of_a_host_is_that_of_the_learner(
    start: Start, do: str, code: int, lost: list[tuple[int, str]]
) -> None:
    found = start(do)
    assert found.end() == code
    assert [(data["host"], data["reason"]) for data in found.said(Kind.HOST_LOST)] == lost
    assert not any(map(is_running, found.pids))


@pytest.mark.gate
def test_it_hands_notice_and_leave_to_host_0_and_ends_those_that_stay(start: Start) -> None:
    found = both_run(start, "--test-hooks")
    os.kill(found.pid, signal.SIGHUP)
    found.until("host 0: noticed")
    os.kill(found.pid, signal.SIGTERM)
    assert found.end() == 0
    assert "host 1: noticed" not in found.lines
    assert found.said(Kind.HOST_LOST) == []
    assert not any(map(is_running, found.pids))


def test_a_learner_of_one_host_has_no_supervisor(start: Start) -> None:
    found = start("0,0", "--host-index", "1")
    assert found.end() == 0
    assert found.lines == ["host 1: runs"]
