"""A janitor that is killed in mid-run: another one takes its place, or the verdict tells."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.undo.janitor import RESTARTS, find_runs
from chaoslab.undo.log import open_undos
from tests.harness.machine import look
from tests.harness.running import Harness, begun, chaoslab, little, nothing_is_left, start_run

pytestmark = [pytest.mark.deep]


def janitors(harness: Harness) -> Iterator[psutil.Process]:
    for child in psutil.Process(harness.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # a zombie counts as one
            if "chaoslab.undo.janitor" in child.cmdline():
                yield child


def kill_the_janitor(harness: Harness, time: int) -> None:
    """For the n-th time, and wait until the journal says so."""
    (janitor,) = janitors(harness)
    janitor.kill()
    assert harness.until(begun(Kind.JANITOR_DIED, time))
    died = harness.history.of(Kind.JANITOR_DIED)[-1]
    assert (died.payload.pid, died.payload.how) == (janitor.pid, "signal 9")


@pytest.mark.gate
def test_its_successor_undoes_what_a_harness_leaves_that_is_killed_next(tmp_path: Path) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        kill_the_janitor(harness, 1)
        (successor,) = janitors(harness)
        assert harness.history.last(Kind.JANITOR_DIED).payload.successor == successor.pid
        harness.end(signal.SIGKILL)
        successor.wait(30.0)
        assert harness.record is not None
        assert not open_undos(harness.record)
        nothing_is_left(before, harness)


def test_a_run_that_nobody_guards_any_more_says_so_and_is_unknown(tmp_path: Path) -> None:
    with start_run(tmp_path, little(last="1s", time="6s")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 1))
        for time in range(1, RESTARTS + 2):
            kill_the_janitor(harness, time)
        assert not list(janitors(harness))
        printed, _ = harness.end()
        assert harness.history.of(Kind.JANITOR_DIED)[-1].data["successor"] is None
    assert '"check": "unguarded"' in printed
    assert harness.process.returncode in (ExitCode.UNKNOWN, ExitCode.FAIL)


def test_what_a_harness_and_a_janitor_leave_that_die_together_is_healed(tmp_path: Path) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        (janitor,) = janitors(harness)
        os.kill(harness.process.pid, signal.SIGSTOP)
        janitor.kill()
        harness.end(signal.SIGKILL)
        assert harness.record is not None
        assert open_undos(harness.record)
        assert harness.record in find_runs(harness.runs)
        healed = chaoslab("heal", str(harness.record))
        assert healed.exit_code == ExitCode.PASS, healed.output
        assert not open_undos(harness.record)
        nothing_is_left(before, harness)
