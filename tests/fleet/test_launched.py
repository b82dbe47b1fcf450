"""Workers that a launcher starts: found, known by rank, started again by it or with it."""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind, Observation
from chaoslab.core.process_identity import is_running
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.nodes import launching
from chaoslab.fleet.storage import volume
from chaoslab.trainers.reading import Patterns
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.gate]

TRAINERS = Path(__file__).parents[1] / "trainers"
PATTERNS = Patterns.of(progress=r"step (?P<step>\d+) loss (?P<loss>\S+)")
WORKERS = ("worker-0", "worker-1")


class Launched:
    """A fleet with a launcher of two workers, and all that it has reported."""

    def __init__(self, folder: Path, undo_log: Remembered) -> None:
        self.fleet = LocalFleet(folder, WallClock(), undo_log=undo_log)
        self.folder, self.seen = folder, list[Observation]()

    @property
    def saved(self) -> Path:
        """Where both keep their checkpoints."""
        return self.folder / "saved"

    def begin(self, *flags: str, restarts: bool = False, has_volume: bool = False) -> None:
        """Start it and wait for both workers' lines."""
        trainer = ("-m", "chaoslab.selftest.mutants.trainer", "--rank", "RANK")
        saved = ("--folder", str(self.saved))
        launcher = (sys.executable, str(TRAINERS / "launcher.py"), *flags)
        workers = tuple(
            NodeSpec(
                name=one, role=Role.LEARNER, command=(), keeps=str(self.saved),
                has_volume=has_volume,
            )
            for one in WORKERS
        )  # fmt: skip
        self.fleet.start(
            NodeSpec(
                name="launcher", role=Role.LAUNCHER, reads=PATTERNS, launches=workers,
                command=(*launcher, "--", sys.executable, *trainer, *saved), restarts=restarts,
                environment={"PYTHONUNBUFFERED": "1"},
            )
        )  # fmt: skip
        self.until(lambda: self.lives() == {"worker-0": 1, "worker-1": 1})

    def until(self, is_so: Callable[[], bool]) -> None:
        """Read on until it is so."""
        deadline = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < deadline, self.seen[-20:]
            self.seen += self.fleet.poll(self.fleet._place.clock.now_s() + 0.1)

    def lives(self) -> dict[str, int]:
        """How often each worker was reported as started, of those not reported as ended since."""
        started = {name: len(self.of(Kind.NODE_STARTED, name)) for name in WORKERS}
        return {name: lives for name, lives in started.items() if lives > self.exits(name)}

    def exits(self, node: str) -> int:
        """How often a node was reported as ended."""
        return len(self.of(Kind.NODE_EXITED, node))

    def of(self, kind: Kind, node: str) -> list[Observation]:
        """What was reported of a node."""
        return [
            one
            for one in self.seen
            if one.kind is kind and getattr(one.payload, "node", "") == node
        ]


@pytest.fixture
def launched(tmp_path: Path, undo_log: Remembered) -> Iterator[Launched]:
    made = Launched(tmp_path, undo_log)
    with made.fleet:
        yield made
    assert not [
        pid for pid in map(pid_of, made.of(Kind.NODE_STARTED, "worker-0")) if is_running(pid)
    ]
    assert sorted(undo_log.closed) == list(range(len(undo_log.opened)))


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """A thread that outlives the fleet."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def pid_of(started: Observation) -> int:
    return int(str(started.data["pid"]))


@pytest.mark.parametrize("flags", [("--prefix",), ("--nameless",)])
def test_workers_are_found_by_their_rank_or_in_the_order_of_their_starts(
    launched: Launched, flags: tuple[str, ...]
) -> None:
    launched.begin(*flags)
    says = "worker-1" if "--prefix" in flags else "launcher"
    launched.until(lambda: len(launched.of(Kind.TRAINER_SAID, says)) > 2)
    pids = [pid_of(launched.of(Kind.NODE_STARTED, name)[0]) for name in WORKERS]
    assert pids == sorted(set(pids))
    assert launched.fleet.probe("worker-1").data["pid"] == pids[1]


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_the_volume_of_workers_is_there_before_they_write(launched: Launched) -> None:
    launched.begin(has_volume=True)
    assert volume.is_mounted(launched.saved)
    launched.until(lambda: any(launched.saved.iterdir()))
    launched.fleet.fill_disk("worker-1")
    assert any(launched.saved.iterdir())
    launched.fleet.free_disk("worker-1")


def test_a_launcher_that_restarts_brings_back_what_was_killed(launched: Launched) -> None:
    launched.begin("--restarts", "3", restarts=True)
    launched.fleet.kill("worker-1")
    launched.until(lambda: launched.exits("worker-1") == 1)
    launched.fleet.restart("worker-1")
    launched.until(lambda: launched.lives() == {"worker-0": 2, "worker-1": 2})
    again = launched.of(Kind.NODE_STARTED, "worker-1")[1]
    (exited,) = launched.of(Kind.NODE_EXITED, "worker-1")
    assert again.data["started_by"] == "launcher"
    assert exited.data["signal"] == "SIGKILL"
    assert list(exited.data["sent"]) == ["SIGKILL"]  # type: ignore[arg-type]
    assert not launched.of(Kind.NODE_EXITED, "launcher")


def test_the_command_is_started_again_when_its_launcher_gave_up(launched: Launched) -> None:
    launched.begin()
    launched.fleet.kill("worker-1")
    launched.until(lambda: launched.exits("launcher") == 1 and not launched.lives())
    launched.fleet.restart("worker-1")
    launched.until(lambda: launched.lives() == {"worker-0": 2, "worker-1": 2})
    assert launched.of(Kind.NODE_EXITED, "launcher")[0].data["exit_code"] == 1
    assert not launched.of(Kind.NODE_STARTED, "worker-1")[1].data.get("started_by")


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_worker_that_is_to_start_again_does_so_once_its_launcher_gave_up(
    beside: ThreadPoolExecutor, launched: Launched, *, is_beside: bool
) -> None:
    if is_beside:
        launched.fleet.use_workers(lambda _, chore: beside.submit(chore))
    launched.begin()
    launched.fleet.kill("worker-1")
    assert launched.fleet.restart("worker-1").is_alive
    launched.until(lambda: launched.lives() == {"worker-0": 2, "worker-1": 2})
    assert launched.exits("launcher") == 1


def test_a_launcher_that_does_nothing_about_a_dead_worker_is_ended_after_the_others(
    launched: Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "QUIET_S", 0.5)
    launched.begin("--waits")
    launched.fleet.kill("worker-1")
    assert launched.fleet.restart("worker-1").is_alive
    launched.until(lambda: launched.lives() == {"worker-0": 2, "worker-1": 2})
    (exited,) = launched.of(Kind.NODE_EXITED, "worker-0")
    assert list(exited.data["sent"]) == ["SIGTERM"]  # type: ignore[arg-type]
    assert launched.exits("launcher") == 1


def test_a_launcher_is_killed_alone_and_its_workers_are_ended_before_the_next(
    launched: Launched,
) -> None:
    launched.begin()
    launched.fleet.kill("launcher")
    launched.until(lambda: launched.exits("launcher") == 1)
    assert launched.lives() == {"worker-0": 1, "worker-1": 1}
    launched.fleet.restart("launcher")
    launched.until(lambda: launched.lives() == {"worker-0": 2, "worker-1": 2})
    (exited,) = launched.of(Kind.NODE_EXITED, "worker-0")
    assert list(exited.data["sent"]) == ["SIGKILL"]  # type: ignore[arg-type]


def test_a_single_worker_is_paused(launched: Launched) -> None:
    launched.begin()
    launched.fleet.pause("worker-0")
    states = [launched.fleet.probe(name).data["state"] for name in WORKERS]
    launched.fleet.resume("worker-0")
    assert (states[0], states[1] == "T") == ("T", False)
    assert launched.fleet.probe("worker-0").data["state"] != "T"
