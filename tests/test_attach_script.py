"""A training of the user's own that runs already: found, broken, judged, and left as it was."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from chaoslab.core.errors import ExitCode
from chaoslab.core.events import Kind
from chaoslab.core.payloads import (
    MemberJoined,
    MemberLeft,
    NodeExited,
    NodeStarted,
    RunLeft,
    TrainerSaid,
)
from chaoslab.core.process_tree import processes
from chaoslab.fleet.attached.script_search import Which, find
from tests.whole_runs import ROOT, Ran, await_event, ended, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone]

TRAINERS = Path(__file__).parent / "trainers"
PATIENCE_S = 60.0
PLAN = r"""
version: 1
name: attached
training:
  script: {progress: 'step (?P<step>\d+) loss (?P<loss>\S+)', restarts: RESTARTS}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 300%}
twin: false
limits: {min_alive: 0, max_affected: 100%, timeout: 5m}
faults:
  - {id: breaks, fault: FAULT, target: TARGET, at: {round: 20}, for: FOR}
expect:
  - {check: participation, min_share: 5%}
  - {check: rejoin, within: 60s, contributions: 3}
"""


class Running:
    """A training of the standard library, started by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def launcher(self, *flags: str, has_prefix: bool = True) -> str:
        """With two workers, whose lines begin with their ranks; its target."""
        words = (*flags, "--", sys.executable, *self._trainer("RANK"))
        prefix = ("--prefix",) * has_prefix
        pid = self._start("train", str(TRAINERS / "launcher.py"), *prefix, *words)
        self.until(lambda: len(self.pids()) == 3)
        return f"pid:{pid}"

    def workers(self) -> str:
        """Two by themselves; their target."""
        for rank in ("0", "1"):
            self._start(rank, *self._trainer(rank))
        return f"pattern:{self.folder}/saved"

    def sharing(self) -> str:
        """Two by themselves that print to one file, with their ranks; their target."""
        ranked = (
            "import builtins, functools, runpy, sys; "
            "builtins.print = functools.partial(print, f'[rank{sys.argv[3]}]:'); "
            "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
        )
        for rank in ("0", "1"):
            words = [sys.executable, "-u", "-c", ranked, *self._trainer(rank)[2:]]
            self._begin("train", words)
        return f"pattern:{self.folder}/saved"

    def supervised(self) -> str:
        """One that a shell starts again and again; its target."""
        words = shlex.join((sys.executable, *self._trainer("0")))
        log = self.folder / "train.log"
        self._begin(
            "supervisor", ["sh", "-c", f"while :; do {words} > {shlex.quote(str(log))}; done"]
        )
        self.until(lambda: bool(self.pids()) and self.step() > 0)
        return f"pattern:-u -m .*{self.folder}/saved"

    def complaining(self) -> str:
        """One that prints to standard error alone, and has a file for each stream; its target."""
        turned = (
            "import runpy, sys; sys.stdout = sys.stderr; "
            "runpy.run_module(sys.argv.pop(1), run_name='__main__')"
        )
        words = [sys.executable, "-u", "-c", turned, *self._trainer("0")[2:]]
        with (self.folder / "bars.log").open("ab") as errors:
            pid = self._begin("train", words, errors=errors)
        self.until(lambda: self.step() > 0)
        return f"pid:{pid}"

    def _trainer(self, rank: str) -> tuple[str, ...]:
        module = "chaoslab.selftest.mutants.trainer"
        return ("-u", "-m", module, "--rank", rank, "--folder", f"{self.folder}/saved")

    def _start(self, name: str, *words: str) -> int:
        return self._begin(name, [sys.executable, "-u", *words])

    def _begin(
        self, name: str, words: list[str], errors: BinaryIO | int = subprocess.STDOUT
    ) -> int:
        with (self.folder / f"{name}.log").open("ab") as output:
            started = subprocess.Popen(words, stdout=output, stderr=errors, cwd=ROOT)
        self._started.append(started)
        return started.pid

    def processes(self) -> Iterator[psutil.Process]:
        """Those of this training, whoever started them, but no shell."""
        for started in self._started:
            started.poll()
        for process in processes():
            with suppress(psutil.Error):
                words = process.cmdline()
                if f"{self.folder}/saved" in words and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def pids(self) -> set[int]:
        return {process.pid for process in self.processes()}

    def step(self) -> int:
        """The newest that it has saved."""
        saved = (self.folder / "saved").glob("*-*.json")
        return max((int(one.stem.partition("-")[2]) for one in saved), default=0)

    def goes_on(self, count: int) -> bool:
        """Whether it saves again, with so many processes, of which none is stopped."""
        before = self.step()
        self.until(lambda: self.step() > before and len(self.pids()) == count)
        states = {process.status() for process in self.processes()}
        return psutil.STATUS_STOPPED not in states

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, [
                path.read_text()[-500:] for path in self.folder.glob("*.log")
            ]
            time.sleep(0.05)

    def end(self) -> None:
        for started in self._started:
            started.kill()
        for process in list(self.processes()):
            with suppress(psutil.Error):
                process.kill()
        for started in self._started:
            started.wait(PATIENCE_S)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "by hand"
    folder.mkdir()
    training = Running(folder)
    try:
        yield training
    finally:
        training.end()


def attach(target: str, folder: Path, words: Mapping[str, str]) -> "subprocess.Popen[str]":
    text = PLAN
    usual = {"RESTARTS": "chaoslab", "FAULT": "process.kill", "TARGET": "{workers: 1}", "FOR": "1s"}
    for word, value in {**usual, **words}.items():
        text = text.replace(word, value)
    plan = folder / "plan.yaml"
    plan.write_text(text)
    return subprocess.Popen(
        [sys.executable, "-m", "chaoslab", "attach", target, str(plan), "--yes", "--json",
         "--quiet", "--out", str(folder / "runs")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def judged(target: str, folder: Path, **words: str) -> Ran:
    """A run that passes."""
    ran = ended(attach(target, folder, words), folder / "runs")
    assert (ran.code, ran.verdict["outcome"]) == (0, "PASS"), whole(ran.verdict)
    assert ran.statuses == ["proved"]
    return ran


@pytest.mark.gate
def test_a_launcher_whose_worker_is_killed_ends_and_is_started_again(
    running: Running, tmp_path: Path
) -> None:
    ran = judged(running.launcher(), tmp_path)
    lives = [(one.payload.node, one.payload.incarnation, one.payload.started_by)
             for one in ran.history.of(NodeStarted)]  # fmt: skip
    assert sorted(lives) == [
        (node, life, "") for node in ("launcher", "worker-0", "worker-1") for life in (1, 2)
    ]
    killed = [one.payload for one in ran.history.of(NodeExited) if one.payload.sent]
    assert [(one.signal, one.is_seen) for one in killed] == [("SIGKILL", True)]
    assert running.goes_on(3)


@pytest.mark.gate
def test_a_launcher_that_does_nothing_about_a_dead_worker_is_ended_and_started_again(
    running: Running, tmp_path: Path
) -> None:
    target = running.launcher("--waits")
    before = running.pids()
    ran = judged(target, tmp_path)
    assert not before & running.pids()
    sent = {one.payload.node: one.payload.sent for one in ran.history.of(NodeExited)}
    assert {("SIGKILL",), ("SIGTERM",)} == {sent[name] for name in ("worker-0", "worker-1")}
    assert [one.payload.gone for one in ran.history.of(RunLeft)] == [()]
    assert running.goes_on(3)


def test_a_launcher_that_starts_its_workers_again_is_left_alone(
    running: Running, tmp_path: Path
) -> None:
    target = running.launcher("--restarts", "3")
    ran = judged(target, tmp_path, RESTARTS="itself")
    started = [one.payload.started_by for one in ran.history.of(NodeStarted)]
    assert started == [""] * 3 + ["launcher"] * 2
    assert {int(target[4:])} < running.pids()
    assert running.goes_on(3)


def test_what_outlives_a_killed_launcher_is_ended_before_the_next_one_starts(
    running: Running, tmp_path: Path
) -> None:
    target = running.launcher()
    before = running.pids()
    judged(target, tmp_path, TARGET="{launcher: all}")
    assert not before & running.pids()
    assert running.goes_on(3)


def test_workers_by_a_pattern_print_to_files_of_their_own(running: Running, tmp_path: Path) -> None:
    target = running.workers()
    before = running.pids()
    ran = judged(target, tmp_path, FAULT="process.pause")
    assert len(ran.history.of(Kind.NODE_STARTED)) == 2
    assert running.pids() == before
    assert running.goes_on(2)


def test_lines_with_ranks_in_one_file_are_those_of_their_workers(
    running: Running, tmp_path: Path
) -> None:
    ran = judged(running.sharing(), tmp_path, FAULT="process.pause")
    speakers = {one.payload.node for one in ran.history.of(TrainerSaid)}
    assert speakers == {"worker-0", "worker-1"}
    assert running.goes_on(2)


@pytest.mark.gate
def test_lines_in_one_file_that_nothing_tells_apart_are_found(
    running: Running, tmp_path: Path
) -> None:
    target = running.launcher("--restarts", "3", has_prefix=False)
    ran = ended(attach(target, tmp_path, {"RESTARTS": "itself"}), tmp_path / "runs")
    assert (ran.code, ran.verdict["outcome"]) == (3, "UNKNOWN"), whole(ran.verdict)
    assert ran.finding("lines")["codes"] == ran.finding("rejoin")["codes"] == ["lines_mixed"]
    left = ran.history.of(MemberLeft)
    assert len(left) == len(ran.history.of(MemberJoined)) - 2 == 2, whole(ran.verdict)
    assert running.goes_on(3)


def test_both_files_of_one_that_prints_to_two_are_read(running: Running, tmp_path: Path) -> None:
    ran = judged(running.complaining(), tmp_path)
    assert [one.payload.incarnation for one in ran.history.of(NodeStarted)] == [1, 2]
    assert (running.folder / "train.log").read_bytes() == b""
    for life in ("1", "2"):
        assert (ran.record / "nodes/worker-0" / life / "stderr.log").stat().st_size
    assert running.goes_on(1)


@pytest.mark.gate
def test_with_a_supervisor_nothing_is_started_here(running: Running, tmp_path: Path) -> None:
    ran = judged(running.supervised(), tmp_path, RESTARTS="supervisor", FOR="3s")
    assert [one.payload.incarnation for one in ran.history.of(NodeStarted)] == [1, 2]
    (process,) = running.processes()
    assert process.parent().name() == "sh"  # type: ignore[union-attr]
    assert running.goes_on(1)


@pytest.mark.parametrize(
    ("fault", "target", "flags"),
    [
        pytest.param("process.kill", "{launcher: all}", (), marks=pytest.mark.gate),
        ("process.kill", "{workers: 1}", ()),
        pytest.param("process.kill", "{workers: 1}", ("--waits",), marks=pytest.mark.gate),
        ("process.pause", "{workers: 2}", ()),
    ],
    ids=["launcher", "worker", "waits", "pause"],
)
def test_a_harness_that_dies_leaves_it_as_it_was(
    running: Running, tmp_path: Path, fault: str, target: str, flags: tuple[str, ...]
) -> None:
    which = running.launcher(*flags)
    run = attach(which, tmp_path, {"FAULT": fault, "TARGET": target, "FOR": "100s"})
    await_event(tmp_path / "runs", Kind.FAULT_INJECTED)
    run.kill()
    run.communicate(timeout=PATIENCE_S)
    assert running.goes_on(3)


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("{launcher: all}", ()),
        pytest.param("{workers: 1}", ("--waits",), marks=pytest.mark.gate),
    ],
    ids=["launcher", "waits"],
)
def test_an_interrupted_run_brings_back_what_it_broke(
    running: Running, tmp_path: Path, target: str, flags: tuple[str, ...]
) -> None:
    run = attach(running.launcher(*flags), tmp_path, {"TARGET": target, "FOR": "100s"})
    await_event(tmp_path / "runs", Kind.FAULT_INJECTED)
    run.send_signal(signal.SIGINT)
    ran = ended(run, tmp_path / "runs")
    assert ran.code == ExitCode.INTERRUPTED, whole(ran.verdict)
    assert {one["outcome"] for one in ran.verdict["findings"]} <= {"UNKNOWN", "PASS"}
    assert running.goes_on(3)


@pytest.mark.gate
def test_a_plan_is_written_from_what_it_has_printed(running: Running, tmp_path: Path) -> None:
    target, file = running.launcher(), tmp_path / "gate.yaml"
    running.until(lambda: running.step() > 0)
    command = [sys.executable, "-m", "chaoslab", "attach", target]
    subprocess.run([*command, "--write", str(file)], check=True, cwd=ROOT, timeout=PATIENCE_S)
    again = subprocess.run(
        [*command, "--write", str(file)], capture_output=True, text=True, cwd=ROOT, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert (again.returncode, str(file) in again.stderr) == (2, True)
    out = ("--yes", "--json", "--quiet", "--out", str(tmp_path / "runs"))
    run = subprocess.Popen(
        [*command, str(file), *out], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )  # fmt: skip
    ran = ended(run, tmp_path / "runs")
    assert (ran.code, ran.finding("resume")["outcome"]) == (0, "PASS"), whole(ran.verdict)
    assert running.goes_on(3)


@pytest.mark.gate
def test_what_cannot_be_brought_back_is_not_broken(running: Running, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, *running._trainer("0")], stdout=subprocess.PIPE, cwd=ROOT
    ) as started:
        try:
            running.until(lambda: running.step() > 0)
            run = attach(f"pid:{started.pid}", tmp_path, {})
            _, said = run.communicate(timeout=PATIENCE_S)
            assert (run.returncode, "does not print to a file" in said) == (2, True), said
            assert started.poll() is None
        finally:
            started.kill()


def test_a_shell_that_waits_is_passed_over(running: Running) -> None:
    running.supervised()
    (worker,) = running.processes()
    shell = worker.ppid()
    (found,) = find(Which(pid=shell))
    assert (found.name, found.handle) == ("worker-0", str(worker.pid))
    assert os.getpid() not in {int(one.handle) for one in find(Which(pattern=str(running.folder)))}
