"""A training by hand that chaoslab did not start: found, broken, restored, and left running."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from chaoslab.core.events import Kind
from chaoslab.core.process_tree import processes
from chaoslab.fleet.attached.processes import find
from chaoslab.prepare.launch import compilation_cache
from chaoslab.record.history import History
from tests.whole_runs import await_event, whole

pytestmark = [pytest.mark.deep, pytest.mark.alone]

ROOT = Path(__file__).parent.parent
PATIENCE_S = 180.0
PLAN = """
version: 1
name: attached
training: {learners: 4}
baseline: {warmup: 4 rounds, window: 12 rounds, max_variation: 200%}
limits: {min_alive: 1, max_affected: 50%, timeout: 10m}
faults:
  - {id: die, fault: process.kill, target: {learners: [learner-1]}, at: {time: 5s}, for: 4s}
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 60s}
  - {check: ledger}
  - {check: versions}
  - {check: cleanup}
"""


class ByHand:
    """A syncer and two learners, each printing to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        rules = {"learners": ["learner-0", "learner-1"], "sync_every": 12}
        self._start("syncer", "--address", "127.0.0.1:0", "--settings-json", json.dumps(rules))
        file = self.folder / "syncer" / "address"
        self.await_(file.exists)
        for index in (0, 1):
            name = f"learner-{index}"
            self._start(
                name, "--name", name, "--syncer", file.read_text(), "--step-time", "0.15",
                "--token-file", str(self.folder / "syncer" / "tokens" / name),
                "--shard", str(index), "--shards", "2",
                "--compilation-cache", str(compilation_cache()),
            )  # fmt: skip

    def _start(self, name: str, *flags: str) -> None:
        module = "syncer" if name == "syncer" else "learner"
        with (self.folder / f"{name}.log").open("ab") as output:
            self._started.append(
                subprocess.Popen(
                    [sys.executable, "-m", f"chaoslab.diloco.{module}",
                     "--directory", str(self.folder / name), *flags],
                    stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                    env={**os.environ, "NPROC": "1"}, cwd=ROOT,
                )
            )  # fmt: skip

    @property
    def syncer(self) -> int:
        return self._started[0].pid

    @property
    def target(self) -> str:
        return f"processes:{self.syncer}"

    def pids(self) -> dict[str, int]:
        return {node.name: int(node.handle) for node in find(self.syncer)}

    def merged(self) -> int:
        return (self.folder / "syncer.log").read_bytes().count(b'"round.merged"')

    def await_(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, [
                path.read_text()[-500:] for path in self.folder.glob("*.log")
            ]
            time.sleep(0.1)

    def goes_on(self) -> bool:
        """Whether more is merged, with both learners there."""
        before = self.merged()
        self.await_(lambda: self.merged() > before + 4)
        return sorted(self.pids()) == ["learner-0", "learner-1", "syncer"]

    def _processes(self) -> Iterator[psutil.Process]:
        """Those of this training, whoever started them."""
        for process in processes():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if any(word.startswith(str(self.folder)) for word in words) and "-m" in words:
                yield process

    def end(self) -> None:
        for process in list(self._processes()):
            process.kill()
        for started in self._started:
            started.kill()
            started.wait(PATIENCE_S)


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[ByHand]:
    """Both learners are at work."""
    folder = tmp_path / "hand"
    folder.mkdir()
    training = ByHand(folder)
    try:
        training.start()
        training.await_(training.goes_on)
        yield training
    finally:
        training.end()


def attach(training: ByHand, folder: Path) -> "subprocess.Popen[str]":
    plan = folder / "plan.yaml"
    plan.write_text(PLAN)
    return subprocess.Popen(
        [sys.executable, "-m", "chaoslab", "attach", training.target, str(plan), "--yes", "--json",
         "--out", str(folder / "runs")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def record(folder: Path) -> Path:
    return (folder / "runs" / "latest").resolve()


@pytest.mark.gate
def test_a_killed_learner_is_started_again_and_the_training_goes_on(
    by_hand: ByHand, tmp_path: Path
) -> None:
    """And while this run goes on, a second one is refused."""
    before = by_hand.pids()
    run = attach(by_hand, tmp_path)
    await_event(tmp_path / "runs", Kind.NODE_STARTED)
    (tmp_path / "other").mkdir()
    second = attach(by_hand, tmp_path / "other")
    _, refusal = second.communicate(timeout=120)
    assert run.poll() is None
    assert second.returncode not in (0, 1)
    assert str(run.pid) in refusal
    told, complaints = run.communicate(timeout=300)
    verdict = json.loads(told)
    assert run.returncode == 0, f"{whole(verdict)}\n{complaints}"
    assert [one["status"] for one in verdict["injections"]] == ["proved"]
    assert "ledger" not in {one["check"] for one in verdict["findings"]}
    after = by_hand.pids()
    assert (before["syncer"], before["learner-0"]) == (after["syncer"], after["learner-0"])
    assert before["learner-1"] != after["learner-1"]
    assert by_hand.goes_on()
    history = History.read(record(tmp_path))
    exited = next(e for e in history.events if e.kind is Kind.NODE_EXITED)
    assert exited.data["signal"] == "SIGKILL"
    assert not list(Path("/tmp").glob(f"chaoslab-private-{run.pid}-*"))
