"""Whatever happens to the harness, nothing of its run stays in the cluster."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.events import Kind
from chaoslab.fleet.base import Fleet
from chaoslab.fleet.kubernetes.run_objects import remains
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.base import NoUndoLog
from chaoslab.undo.log import open_undos
from tests.cluster import LIMIT_S, STATE, Cluster, small_fleet
from tests.contracts.fleet_kit import wait_until
from tests.engine import learner

pytestmark = [
    pytest.mark.slow, pytest.mark.kubernetes, pytest.mark.patient, pytest.mark.timeout(LIMIT_S),
]  # fmt: skip


def killed_when(word: str, run_directory: Path, *more: str) -> None:
    """A stand-in for the harness that is killed when it has said this word."""
    program = ("-m", "tests.fleet.kubernetes.killed_harness", str(run_directory), *more)
    command = (sys.executable, *program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        said = iter(harness.stdout)
        assert any(line.strip() == word for line in said)
        harness.kill()


@pytest.mark.parametrize("word", ["opened", "started", "paused"])
def test_the_janitor_of_a_killed_harness_deletes_everything(
    word: str, tmp_path: Path, here: Cluster
) -> None:
    killed_when(word, tmp_path)
    wait_until(lambda: not open_undos(tmp_path))
    assert remains(here, run_name(tmp_path)) == ()


@pytest.mark.soak
def test_twenty_kills_of_the_harness_leave_nothing(tmp_path: Path, here: Cluster) -> None:
    for index in range(20):
        run_directory = tmp_path / str(index)
        run_directory.mkdir()
        killed_when(("opened", "started", "paused")[index % 3], run_directory)
        wait_until(lambda at=run_directory: not open_undos(at))
        assert remains(here, run_name(run_directory)) == ()


def test_without_harness_and_janitor_the_cluster_deletes_everything(
    tmp_path: Path, here: Cluster
) -> None:
    run = run_name(tmp_path)
    context = Cluster.connect(here.context, here.namespace)
    fleet = small_fleet(tmp_path, WallClock(), context, NoUndoLog(), lease_s=5.0)
    fleet.__enter__()  # and never left
    fleet.start(learner("learner-0"))
    assert remains(here, run)
    fleet._objects._is_over.set()  # as if this process were dead: nobody renews it
    wait_until(lambda: not remains(here, run))
    for life in fleet._lives.values():
        life.abandon()  # closes its files
    fleet._close_objects()


# ---------------------------------------------------------------- the API server


@pytest.fixture
def api_server() -> Iterator[int]:
    """Process of the API server; it goes on afterwards."""
    pid = int((STATE / "pid" / "kube-apiserver").read_text().split()[0])
    yield pid
    os.kill(pid, signal.SIGCONT)


def steps(fleet: Fleet, clock: WallClock, until_s: float) -> list[int]:
    """Numbers of the steps that were reported until then."""
    found: list[int] = []
    while clock.now_s() < until_s:
        seen = fleet.poll(min(until_s, clock.now_s() + 0.5))
        found += [int(str(one.data["step"])) for one in seen if one.kind is Kind.LEARNER_STEP]
    return found


def test_no_line_is_lost_or_repeated_while_the_api_server_is_away(
    tmp_path: Path, here: Cluster, api_server: int
) -> None:
    clock = WallClock()
    with small_fleet(tmp_path, clock, Cluster.connect(here.context, here.namespace),
                     NoUndoLog()) as fleet:  # fmt: skip
        fleet.start(learner("learner-0"))
        seen = []
        while not seen:
            seen += steps(fleet, clock, clock.now_s() + 1.0)
        os.kill(api_server, signal.SIGSTOP)
        seen += steps(fleet, clock, clock.now_s() + 20.0)
        before = len(seen)
        os.kill(api_server, signal.SIGCONT)
        wait_until(lambda: bool(seen.extend(steps(fleet, clock, clock.now_s() + 1.0))
                                or len(seen) > before + 300))  # fmt: skip
        assert seen == list(range(1, len(seen) + 1))
        assert fleet.nodes["learner-0"].is_alive
