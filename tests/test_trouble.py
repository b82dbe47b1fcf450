"""The harness against its own blindness: real runs in which something is wrong, and it must say so.

Each run is a tiny plan on real processes. Where a node itself has to be wrong, a mutant stands in
for it (`chaoslab.selftest`). What is asserted is what a person or a gate sees: the exit code, the
finding, and the name of the culprit.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from chaoslab.checks.base import Finding, Outcome
from chaoslab.checks.verdict import Verdict
from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Event, Kind
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.prepare.plans import Asked, prepare
from chaoslab.record.journal import History
from chaoslab.run.judged_run import Judged, carry_out
from chaoslab.selftest.mutants import OTHER_VICTIM, VICTIM
from chaoslab.selftest.trial import program_of
from chaoslab.undo.log import open_undos

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
control: none
baseline: {{warmup: 2 rounds, window: 8 rounds, max_variation: 300%}}
settle: 6s
limits: {{min_alive: 0, max_affected: 100%, timeout: 2m}}
faults: [{faults}]
abort: [{{when: {{no_round_for: 60s}}}}]
expect: [{expect}]
"""
CONTINUITY = "{check: continuity, max_gap: 20s}"
KILL = "{id: dies, fault: process.kill, target: {learners: [learner-1]}, at: {round: 12}, for: 1s}"


@pytest.fixture
def write_plan(tmp_path: Path) -> Callable[..., Path]:
    """A tiny plan in a file; its quantities of training are small, its waits generous."""

    def write(faults: str = "", expect: str = CONTINUITY, stop: str = "time: 10s") -> Path:
        path = tmp_path / "tiny.yaml"
        path.write_text(TINY.format(faults=faults, expect=expect, stop=stop))
        return path

    return write


@dataclass
class Striker:
    """An observer that does something to the world in mid-training, once all faults are over."""

    strike: Callable[[], None]

    def see(self, event: Event) -> None:
        if event.kind is Kind.PHASE_ENTERED and event.payload.phase == "stop":
            self.strike()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Judged]:
    """Carry a plan out with mutants in place of some roles; the run and its verdict."""

    def carry(plan: Path, *, strike: Callable[[], None] | None = None, **mutants: str) -> Judged:
        programs = [
            f"fleet.programs.{role}={program_of(role, name)}" for role, name in mutants.items()
        ]
        observers = [Striker(strike)] if strike else []
        asked = Asked(plan=str(plan), settings=programs)
        return carry_out(prepare(asked), tmp_path / "runs", observers)

    return carry


def finding_of(judged: Judged, check: str) -> Finding:
    """The finding of a check, which must be there."""
    found = {finding.check: finding for finding in judged.verdict.findings}
    assert check in found, judged.verdict.explain()
    return found[check]


def node_pid(root: Path, node: str) -> int:
    """The process of a node of the run that is going on below `root`."""
    (record,) = (root / "runs" / "tiny").glob("2*")
    started = History.read(record).of(Kind.NODE_STARTED)
    return next(event.payload.pid for event in reversed(started) if event.payload.node == node)


def left_over(root: Path) -> list[int]:
    """Processes that a run below `root` started and that still live."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(root) in process.environ().get(NODE_MARK, ""):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


# ---------------------------------------------------------------- the training is wrong


@pytest.mark.deep
@pytest.mark.alone
def test_a_syncer_that_drops_one_learners_pushes_is_found_out(
    write_plan: Callable[..., Path], run: Callable[..., Judged]
) -> None:
    plan = write_plan(KILL, "{check: ledger}, {check: rejoin, within: 10s}")
    judged = run(plan, syncer="deaf_syncer")
    assert judged.verdict.exit_code is ExitCode.FAIL, judged.verdict.explain()
    ledger = finding_of(judged, "ledger")
    assert ledger.outcome is Outcome.FAIL
    assert ledger.culprits == (VICTIM,)
    assert "merged without it" in ledger.reason
    assert finding_of(judged, "rejoin").outcome is not Outcome.PASS


@pytest.mark.deep
@pytest.mark.alone
def test_learners_that_adopt_something_else_than_was_published_are_found_out(
    write_plan: Callable[..., Path], run: Callable[..., Judged]
) -> None:
    plan = write_plan("", f"{{check: agreement}}, {CONTINUITY}", stop="rounds: 80")
    judged = run(plan, learner="wrong_adopter")
    assert judged.verdict.exit_code is ExitCode.FAIL, judged.verdict.explain()
    agreement = finding_of(judged, "agreement")
    assert agreement.outcome is Outcome.FAIL
    assert set(agreement.culprits) == {VICTIM, OTHER_VICTIM}
    assert "other parameters" in agreement.reason


@pytest.mark.deep
@pytest.mark.alone
def test_a_victim_that_steps_again_but_never_contributes_has_not_rejoined(
    write_plan: Callable[..., Path], run: Callable[..., Judged]
) -> None:
    plan = write_plan(KILL, f"{CONTINUITY}, {{check: rejoin, within: 5s}}", stop="time: 14s")
    judged = run(plan, learner="mute_rejoiner")
    assert judged.verdict.exit_code is ExitCode.FAIL, judged.verdict.explain()
    assert finding_of(judged, "continuity").outcome is Outcome.PASS
    rejoin = finding_of(judged, "rejoin")
    assert (rejoin.outcome, rejoin.culprits) == (Outcome.FAIL, ("learner-1",))
    assert "it stepped after" in rejoin.reason
    assert "accepted" in rejoin.reason
    assert judged.verdict.learners_rejoined["learner-1"].rejoined is False


@pytest.mark.deep
@pytest.mark.alone
def test_victims_that_the_plan_never_gives_back_are_not_asked_to_return(
    write_plan: Callable[..., Path], run: Callable[..., Judged]
) -> None:
    forever = (
        "{id: half-dies, fault: process.kill, target: {learners: [learner-1, learner-2]}, "
        "at: {round: 12}, for: rest}"
    )
    judged = run(write_plan(forever, stop="rounds: 40"))
    assert judged.verdict.exit_code is ExitCode.PASS, judged.verdict.explain()
    assert judged.verdict.training_continued is True
    back = judged.verdict.learners_rejoined
    assert {name: (one.rejoined, one.was_asked) for name, one in back.items()} == {
        "learner-1": (False, False),
        "learner-2": (False, False),
    }
    assert not left_over(judged.directory.path)


# ---------------------------------------------------------------- the faults are wrong


@pytest.mark.deep
@pytest.mark.alone
def test_faults_that_have_no_effect_give_no_verdict(
    write_plan: Callable[..., Path], run: Callable[..., Judged]
) -> None:
    faults = (
        "{id: hangs, fault: process.hang, target: {learners: [learner-1]}, at: {round: 12}, "
        "for: 1s}, "
        "{id: dies, fault: process.kill, signal: SIGTERM, target: {learners: [learner-2]}, "
        "at: {after: hangs}, for: 1s}"
    )
    judged = run(write_plan(faults), learner="stubborn_learner")
    assert judged.verdict.exit_code is ExitCode.UNKNOWN, judged.verdict.explain()
    reason = finding_of(judged, "evidence").reason
    assert "`hangs` (injection-0, process.hang)" in reason
    assert "`dies` (injection-1, process.kill)" in reason
    assert "did not exit on SIGTERM" in reason
    assert [one.status for one in judged.verdict.injections] == ["failed", "failed"]


# ---------------------------------------------------------------- somebody else interferes


@pytest.mark.deep
@pytest.mark.alone
def test_a_third_partys_kill_of_a_learner_is_named_and_no_pass(
    write_plan: Callable[..., Path], run: Callable[..., Judged], tmp_path: Path
) -> None:
    plan = write_plan(stop="time: 5s")
    judged = run(plan, strike=lambda: os.kill(node_pid(tmp_path, "learner-2"), signal.SIGKILL))
    assert judged.verdict.exit_code is ExitCode.FAIL, judged.verdict.explain()
    unasked = finding_of(judged, "unasked")
    assert unasked.culprits == ("learner-2",)
    assert "learner-2 was killed by SIGKILL" in unasked.reason


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize(
    ("number", "exit_code", "check", "words"),
    [
        (signal.SIGTERM, ExitCode.UNKNOWN, "stop", "syncer ended"),
        (signal.SIGKILL, ExitCode.FAIL, "unasked", "syncer was killed by SIGKILL"),
    ],
)
def test_a_third_partys_signal_to_the_syncer_is_named_and_no_pass(
    write_plan: Callable[..., Path],
    run: Callable[..., Judged],
    tmp_path: Path,
    number: signal.Signals,
    exit_code: ExitCode,
    check: str,
    words: str,
) -> None:
    plan = write_plan(stop="time: 1m")
    judged = run(plan, strike=lambda: os.kill(node_pid(tmp_path, "syncer"), number))
    assert judged.verdict.exit_code is exit_code, judged.verdict.explain()
    assert words in finding_of(judged, check).reason
    assert not left_over(judged.directory.path)


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


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_mid_fault_heals_and_leaves_a_whole_record_and_nothing_else(
    write_plan: Callable[..., Path],
    start: Callable[..., "subprocess.Popen[str]"],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    process = start(write_plan(LONG_PAUSE, stop="time: 1m"))
    until_it_says(process, "is in: process.pause")
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


# ---------------------------------------------------------------- the plan is wrong


def chaoslab(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "chaoslab", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=120,
    )


@pytest.mark.deep
@pytest.mark.parametrize(
    ("wrong", "right", "where", "words"),
    [
        ("learnrs: 3", "learners: 3", "6:3", ("learnrs", "learners")),
        ("for: 1", "for: 1s", "15:", ("no unit", "1s")),
        ("[learner-9]", "[learner-1]", "15:", ("learner-9",)),
        ("process.kil,", "process.kill,", "15:", ("process.kill",)),
    ],
    ids=["unknown key", "bad unit", "nobody meant", "unknown fault"],
)
def test_a_plan_that_cannot_work_is_refused_at_its_place_and_nothing_is_started(
    write_plan: Callable[..., Path],
    tmp_path: Path,
    wrong: str,
    right: str,
    where: str,
    words: Sequence[str],
) -> None:
    plan = write_plan(KILL)
    text = plan.read_text()
    assert right in text
    plan.write_text(text.replace(right, wrong))
    refused = chaoslab("run", str(plan), "--out", str(tmp_path / "runs"))
    assert refused.returncode == ExitCode.REFUSED
    assert f"{plan}:{where}" in refused.stderr, refused.stderr
    assert all(word in refused.stderr for word in words), refused.stderr
    assert not (tmp_path / "runs").exists()
    assert refused.stdout == ""
