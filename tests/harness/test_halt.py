"""`chaoslab halt`: every run ends in order, one that cannot is killed and healed."""

import json
import os
import signal
from pathlib import Path

import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.undo.halt import find_runs, halt
from chaoslab.undo.log import open_undos
from tests.harness.machine import look
from tests.harness.running import begun, chaoslab, little, nothing_is_left, start_run

pytestmark = [pytest.mark.deep]


def test_a_run_is_found_by_its_record_and_anywhere_else_by_its_processes_and_ends_in_order(
    tmp_path: Path,
) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        record = harness.record
        assert record is not None
        assert record.resolve() in find_runs(harness.runs)
        assert record.resolve() in find_runs(tmp_path / "elsewhere")

        foretold = chaoslab("halt", str(record), "--dry-run")
        assert str(harness.process.pid) in foretold.stdout
        assert harness.process.poll() is None
        halted = chaoslab("halt", str(record), "--json")
        assert halted.exit_code == ExitCode.PASS, halted.output
        (said,) = json.loads(halted.stdout)["runs"]
        assert str(harness.process.pid) in said["how"]
        assert said["remaining"] == []
        assert any("learner-1" in action for action in said["actions"])
        assert any("injection-2.latency" in action for action in said["actions"])
        harness.end()
        assert harness.process.returncode == ExitCode.INTERRUPTED
        nothing_is_left(before, harness)

    assert harness.history.events[-1].payload.outcome == "interrupted"
    assert all(story.healed for story in harness.history.faults)
    again = chaoslab("halt", str(record))
    assert again.exit_code == ExitCode.PASS


def test_one_that_does_not_end_is_killed_and_its_heal_is_done(tmp_path: Path) -> None:
    before = look("", tmp_path)
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        assert harness.record is not None
        (said,) = halt([harness.record.resolve()], within_s=0.0)
        assert said.remaining == ()
        assert said.actions
        harness.end()
        assert harness.process.returncode == -signal.SIGKILL
        nothing_is_left(before, harness)
        assert not open_undos(harness.record)


def test_one_that_is_stopped_is_let_go_on_so_that_it_can_end(tmp_path: Path) -> None:
    with start_run(tmp_path, little(last="50s", time="1m")) as harness:
        assert harness.until(begun(Kind.FAULT_INJECTED, 4))
        assert harness.record is not None
        os.kill(harness.process.pid, signal.SIGSTOP)
        halt([harness.record.resolve()], within_s=30.0)
        harness.end()
        assert harness.process.returncode in (ExitCode.INTERRUPTED, ExitCode.UNKNOWN)
