"""Training of the user's own that a host agent takes up: read, broken, and left as it was found."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.attached import restoring
from chaoslab.fleet.attached.script_search import Which, find
from chaoslab.fleet.remote.host_agent.fleet import HostedScript
from chaoslab.fleet.settings import Reading
from chaoslab.trainers.reading import OWN_LINES, Patterns
from chaoslab.trainers.sources import SourceSettings
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.waiting import wait_until

PATTERNS = Patterns.of(progress=r"step (?P<step>\d+)")
TRAINER = textwrap.dedent("""
    import time
    step = 0
    while True:
        step += 1
        print("step", step, flush=True)
        with open("metrics.jsonl", "a") as file:
            file.write('{"step": %d}\\n' % (1000 + step))
        time.sleep(0.01)
""")


class Training:
    """A trainer in a folder of its own, as a user starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "train.py").write_text(TRAINER)
        with (folder / "train.log").open("ab") as log:
            self._started = subprocess.Popen(
                [sys.executable, "-I", "-S", str(folder / "train.py")],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip

    @property
    def pids(self) -> set[int]:
        self._started.poll()
        found = set()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if str(self.folder / "train.py") in process.cmdline() and not is_dead:
                    found.add(process.pid)
        return found

    def end(self) -> None:
        for pid in self.pids:
            psutil.Process(pid).kill()
        self._started.wait(60)


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(restoring, "_STAYS_S", 0.05)
    for limit in ("_GOING_S", "_EXECVE_S"):
        monkeypatch.setattr(restoring, limit, 60.0)  # for a busy machine
    one = Training(tmp_path / "mine")
    try:
        wait_until(lambda: b"step" in (tmp_path / "mine/train.log").read_bytes())
        yield one
    finally:
        one.end()


class Agent:
    """Its fleet, and what it has told."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder
        undo_log = stack.enter_context(UndoLogFile(folder))
        self.fleet = HostedScript(folder, WallClock(), undo_log=undo_log)
        stack.callback(self.fleet.leave)
        self.fleet.__enter__()
        self.told: list[Observation] = []

    def adopt(self, training: Training, reading: Reading, first: int = 1) -> None:
        nodes = find(Which(pattern=str(training.folder)))
        adopted = self.fleet.adopt_these(nodes, reading, {}, {"worker-0": first})
        assert [(one.name, one.is_alive) for one in adopted] == [("worker-0", True)]

    def until(self, kind: Kind) -> Observation:
        """The first of its kind that comes from now on."""
        del self.told[:]

        def is_there() -> bool:
            self.told += self.fleet.attend(0.02)
            return any(one.kind is kind for one in self.told)

        wait_until(is_there)
        return next(one for one in self.told if one.kind is kind)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with ExitStack() as stack:
        yield Agent(tmp_path / "agent", stack)


def test_it_is_read_killed_started_again_and_left_running(training: Training, agent: Agent) -> None:
    (before,) = training.pids
    agent.adopt(training, Reading(patterns=PATTERNS, is_elsewhere=False, restarts="chaoslab"))
    assert agent.until(Kind.TRAINER_SAID).data["step"] > 0
    agent.fleet.kill("worker-0")
    assert agent.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"
    assert open_undos(agent.folder)
    assert agent.fleet.restart("worker-0").incarnation == 2
    assert agent.until(Kind.TRAINER_SAID).data["incarnation"] == 2
    agent.fleet.pause("worker-0")
    assert agent.fleet.leave() == ""
    (after,) = training.pids
    assert after != before
    assert psutil.Process(after).status() != psutil.STATUS_STOPPED
    assert not open_undos(agent.folder)


def test_what_others_start_again_is_taken_up(training: Training, agent: Agent) -> None:
    agent.adopt(training, Reading(patterns=PATTERNS, is_elsewhere=False, restarts="supervisor"), 3)
    assert agent.until(Kind.NODE_STARTED).data["incarnation"] == 3
    agent.fleet.kill("worker-0")
    agent.until(Kind.NODE_EXITED)
    assert not agent.fleet.restart("worker-0").is_alive
    assert not training.pids
    assert not open_undos(agent.folder)


def test_progress_in_a_file_is_read_beside_the_worker(training: Training, agent: Agent) -> None:
    """Relative paths begin where the worker runs, not where the agent does."""
    source = SourceSettings.of({"json_lines": "metrics.jsonl"})
    reading = Reading(
        patterns=OWN_LINES, is_elsewhere=True, restarts="chaoslab",
        sources={"worker-0": source, "worker-1": source},
    )  # fmt: skip
    agent.adopt(training, reading)
    said = agent.until(Kind.TRAINER_SAID)
    assert (said.source, said.data["step"] > 1000) == ("worker-0", True)
    log = agent.folder / "nodes/worker-0/1/stdout.log"
    wait_until(lambda: bool(agent.fleet.attend(0.02)) and b"step" in log.read_bytes())
