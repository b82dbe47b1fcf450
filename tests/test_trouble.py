"""Real runs of a tiny plan in which somebody else interferes, or hits the harness itself.

What is asserted is what a person or a gate sees: the exit code, the finding, and the name of the
culprit. Nodes and fleets that are wrong themselves are mutants: `test_selftest.py`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoslab.checks.base import Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Kind
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.history import History
from chaoslab.record.journal import Observer
from chaoslab.run.judged_run import JudgedRun, run_and_judge
from chaoslab.undo.log import open_undos
from tests.whole_runs import left_over

pytestmark = pytest.mark.deep
ROOT = Path(__file__).parent.parent

TINY = """
version: 1
name: tiny
seed: 1
training:
  learners: 3
  sync_every: 12
  suspect_after: 1500ms
  drop_after: 4s
  stop: {{{stop}}}
twin: false
baseline: {{warmup: 2 rounds, window: 8 rounds, max_variation: 300%}}
settle: 6s
limits: {{min_alive: 0, max_affected: 100%, timeout: 2m}}
faults: [{faults}]
abort: [{{when: {{no_round_for: 60s}}}}]
expect: [{{check: continuity, max_gap: 20s}}]
"""


@pytest.fixture
def write_plan(tmp_path: Path) -> Callable[..., Path]:
    """A tiny plan in a file; its quantities of training are small, its waits generous."""

    def write(faults: str = "", *, stop: str) -> Path:
        path = tmp_path / "tiny.yaml"
        path.write_text(TINY.format(faults=faults, stop=stop))
        return path

    return write


@dataclass
class Striker:
    """An observer that does something to the world in mid-training, once all faults are over."""

    strike: Callable[[], None]

    def see(self, event: Event) -> None:
        if event.kind is Kind.PHASE_ENTERED and event.payload.phase == "stop":
            self.strike()


def node_pid(root: Path, node: str) -> int:
    """The process of a node of the run that is going on below `root`."""
    (record,) = (root / "runs" / "tiny").glob("2*")
    started = History.read(record).of(Kind.NODE_STARTED)
    return next(event.payload.pid for event in reversed(started) if event.payload.node == node)


def judged(plan: Path, root: Path, observers: Sequence[Observer] = ()) -> JudgedRun:
    return run_and_judge(prepare(Asked(plan=str(plan))), root / "runs", observers)


# ---------------------------------------------------------------- on real nodes


@pytest.mark.alone
@pytest.mark.parametrize(
    ("number", "exit_code", "check"),
    [
        (signal.SIGTERM, ExitCode.UNKNOWN, "stop"),
        (signal.SIGKILL, ExitCode.FAIL, "unasked"),
    ],
)
def test_a_third_partys_signal_to_the_syncer_is_named_and_no_pass(
    write_plan: Callable[..., Path],
    tmp_path: Path,
    number: signal.Signals,
    exit_code: ExitCode,
    check: str,
) -> None:
    striker = Striker(lambda: os.kill(node_pid(tmp_path, "syncer"), number))
    run = judged(write_plan(stop="time: 1m"), tmp_path, [striker])
    assert run.verdict.exit_code is exit_code, run.verdict.explain()
    (finding,) = (one for one in run.verdict.findings if one.check == check)
    assert finding.outcome is not Outcome.PASS, run.verdict.explain()
    assert "syncer" in finding.reason
    assert not left_over(run.directory.path)


# ---------------------------------------------------------------- the harness itself is hit

AS_ON_A_TERMINAL = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("chaoslab", run_name="__main__", alter_sys=True)
"""
LONG_PAUSE = (
    "{id: stops, fault: process.pause, target: {learners: [learner-1]}, at: {round: 12}, for: 50s}"
)


STAND_INS = (
    *("--set", "fleet.programs.syncer=tests.harness.little_syncer"),
    *("--set", "fleet.programs.learner=tests.harness.little_learner"),
    *("--set", "training.fragments=1"),
)
"""Nodes that start in a blink: what is hit is the harness. See `tests/harness`."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """`chaoslab run` in a process of its own, on stand-ins for the nodes."""
    started: list[subprocess.Popen[str]] = []

    def begin(plan: Path) -> "subprocess.Popen[str]":
        words = ("run", str(plan), "--json", "--out", str(tmp_path / "runs"), *STAND_INS)
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", AS_ON_A_TERMINAL, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until_it_says(process: "subprocess.Popen[str]", words: str) -> list[str]:
    """Read standard error up to the line with these words."""
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if words in line:
            return told
    raise AssertionError("".join(told))


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.gate), signal.SIGTERM]
)
def test_an_interrupt_in_mid_fault_heals_and_leaves_a_whole_record_and_nothing_else(
    write_plan: Callable[..., Path],
    start: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    process = start(write_plan(LONG_PAUSE, stop="time: 1m"))
    until_it_says(process, "injected: process.pause")
    process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    verdict = Verdict.from_json(json.loads(out))
    assert process.returncode == ExitCode.INTERRUPTED
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNKNOWN, ExitCode.INTERRUPTED)
    assert not left_over(tmp_path)
    record = tmp_path / "runs" / "latest"
    history = History.read(record)
    assert history.events[-1].kind is Kind.RUN_FINISHED
    assert history.events[-1].payload.outcome == "interrupted"
    (story,) = history.faults
    assert story.healed is not None
    assert story.status == "weak", "it was cut short"
    started = {(e.data["node"], e.data["incarnation"]) for e in history.of(Kind.NODE_STARTED)}
    exited = {(e.data["node"], e.data["incarnation"]) for e in history.of(Kind.NODE_EXITED)}
    assert started == exited
    assert not open_undos(record)
    for name in ("verdict.json", "junit.xml", "report.md", "report.html", "run.json"):
        assert (record / name).is_file(), name
