"""Nodes as forks of a process that has their imports: the kit, and what only forks can break."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.core.spawn_guard import HARNESS_GONE
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.local import spawning
from chaoslab.fleet.local.fleet import ForkingFleet
from chaoslab.fleet.local.settings import Local
from chaoslab.fleet.local.spawning import ForkServer, Gate, Start
from chaoslab.fleet.settings import FleetRequest
from tests.contracts import node_program
from tests.contracts.fleet_kit import LivingFleetKit, Stage, wait_until
from tests.contracts.forks import forks_of, wait_for
from tests.fleet.local_stage import Remembered, local_stage
from tests.fleet.test_local import all_gone, children_of

pytestmark = [pytest.mark.deep]

PROGRAM = (sys.executable, "-m", node_program.__name__)


@pytest.fixture
def stage(tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
    """A fleet whose fork server is ready before the first node."""
    with local_stage(tmp_path, undo_log, ForkingFleet) as stage:
        assert isinstance(stage.fleet, ForkingFleet)
        forks_of(stage.fleet, *PROGRAM, undo_log=undo_log)
        yield stage


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


def learner(name: str, *flags: str) -> NodeSpec:
    command = (*PROGRAM, "--name", name, "--incarnation", "{incarnation}", *flags)
    return NodeSpec(name=name, role=Role.LEARNER, command=command, labels={"region": "eu"})


class TestForkingFleet(LivingFleetKit):
    """The kit."""


def server_of(stage: Stage) -> ForkServer:
    assert isinstance(stage.fleet, ForkingFleet)
    server = stage.fleet._fork_server
    assert server is not None
    return server


def started(stage: Stage) -> psutil.Process:
    """The process of the node that starts next, and that it was forked."""
    seen = stage.until(Kind.NODE_STARTED)
    assert seen.data["imports_cpu_s"] is not None
    return psutil.Process(int(str(seen.data["pid"])))


def spares(server: psutil.Process) -> list[psutil.Process]:
    """The fork that waits, once there is one: the child of the process in between."""
    found: list[psutil.Process] = []

    def is_there() -> bool:
        between = server.children()
        found[:] = [spare for one in between for spare in one.children()]
        return bool(found)

    wait_until(is_there)
    return found


# ---------------------------------------------------------------- what a fork is


def test_a_plan_asks_for_it_and_does_without_it_otherwise() -> None:
    assert Local(fork_server=True).factory(FleetRequest()) is ForkingFleet
    assert not Local().factory(FleetRequest()).has_fork_server


def test_a_fork_is_a_child_of_ours_in_our_session_and_leads_a_group(
    stage: Stage, spec: NodeSpec
) -> None:
    stage.fleet.start(spec)
    node = started(stage)
    assert node.ppid() == os.getpid()
    assert (os.getsid(node.pid), os.getpgid(node.pid)) == (os.getsid(0), node.pid)


def test_a_node_and_its_children_show_its_command_and_its_environment(
    stage: Stage, tmp_path: Path
) -> None:
    spec = replace(learner("learner-0", "--children", "1"), secrets={"TOKEN_OF": "mine"})
    stage.fleet.start(spec)
    node = started(stage)
    assert tuple(node.cmdline()) == (*spec.command[:-3], "1", *spec.command[-2:])
    stage.until(Kind.LEARNER_STEP)
    (child,) = children_of("learner-0", tmp_path)
    for environment in (node.environ(), child.environ()):
        assert environment["TOKEN_OF"] == "mine"
        assert environment[NODE_MARK] == f"{tmp_path}/learner-0/1"
        assert "CHAOSLAB_ROOM" not in environment


def test_a_kill_takes_children_that_left_session_and_group(stage: Stage, tmp_path: Path) -> None:
    stage.fleet.start(learner("learner-0", "--children", "2", "--orphans", "1"))
    stage.until(Kind.LEARNER_STEP)
    children = children_of("learner-0", tmp_path)
    stage.fleet.kill("learner-0")
    stage.until(Kind.NODE_EXITED)
    assert len(children) == 3
    wait_until(lambda: all_gone(children))


def test_the_server_keeps_nothing_of_a_node_open(stage: Stage, spec: NodeSpec) -> None:
    server = psutil.Process(server_of(stage).pid)
    (spare,) = spares(server)
    before = server.num_fds()
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    wait_until(lambda: spares(server) != [spare])
    assert server.num_fds() == before


def test_a_node_is_forked_before_it_is_asked_for(stage: Stage, spec: NodeSpec) -> None:
    (spare,) = spares(psutil.Process(server_of(stage).pid))
    stage.fleet.start(spec)
    assert started(stage) == spare


def test_a_spare_ends_with_its_server(stage: Stage) -> None:
    server = psutil.Process(server_of(stage).pid)
    made = [*spares(server), *server.children()]
    server.kill()
    wait_until(lambda: all_gone(made))


def test_we_adopt_orphans_only_while_a_node_is_forked(stage: Stage, tmp_path: Path) -> None:
    stage.fleet.start(learner("learner-0", "--orphans", "1"))
    stage.until(Kind.LEARNER_STEP)
    (orphan,) = children_of("learner-0", tmp_path)
    stage.fleet.kill("learner-0")
    stage.until(Kind.NODE_EXITED)
    wait_until(lambda: all_gone([orphan]))
    assert not psutil.pid_exists(orphan.pid) or orphan.ppid() != os.getpid()


def test_nothing_runs_before_the_word_go(stage: Stage, tmp_path: Path) -> None:
    gate = Gate()
    start = Start(
        command=[*PROGRAM, "--name", "learner-0", "--incarnation", "1"],
        environment=dict(os.environ),
        errors=tmp_path / "errors",
        gate=gate,
        hears=False,
    )
    forked = server_of(stage).fork(start)
    assert forked is not None
    assert forked.stdout is not None
    gate.close()  # as by a harness that dies
    with forked.stdout:
        assert forked.stdout.read() == b""
    assert forked.wait() == HARNESS_GONE


# ---------------------------------------------------------------- when it is used


@pytest.mark.gate
def test_the_first_processes_are_executed_and_later_ones_forked(
    tmp_path: Path, undo_log: Remembered
) -> None:
    clock = WallClock()
    with ForkingFleet(tmp_path, clock, undo_log=undo_log) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(learner("learner-0"))
        assert "imports_cpu_s" not in stage.until(Kind.NODE_STARTED).data
        wait_for(server_of(stage), *PROGRAM)
        fleet.kill("learner-0")
        fleet.restart("learner-0")
        started(stage)
        marks = [entry["mark"] for entry in undo_log.opened]
        assert f"{tmp_path}/fork-server" in marks
    assert sorted(undo_log.closed) == list(range(len(undo_log.opened)))


def test_a_server_that_was_killed_is_done_without(
    stage: Stage, spec: NodeSpec, caplog: pytest.LogCaptureFixture
) -> None:
    os.kill(server_of(stage).pid, signal.SIGKILL)
    with caplog.at_level(logging.WARNING):
        stage.fleet.start(spec)
    assert "imports_cpu_s" not in stage.until(Kind.NODE_STARTED).data
    stage.until(Kind.LEARNER_STEP)
    assert caplog.records


def test_a_fork_that_comes_too_late_takes_nothing_of_the_node_that_is_executed(
    stage: Stage, spec: NodeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(stage)
    process = psutil.Process(server.pid)
    made = [process, *process.children(), *spares(process)]
    close = ForkServer.close

    def answered_too_late(server: ForkServer) -> tuple[int, ...]:
        server._control.close()
        process.resume()
        return close(server)

    monkeypatch.setattr(ForkServer, "close", answered_too_late)
    server._control.settimeout(0.01)
    process.suspend()
    stage.fleet.start(spec)
    assert all_gone(made)
    seen = stage.until(Kind.NODE_STARTED)
    assert "imports_cpu_s" not in seen.data
    stage.until(Kind.LEARNER_STEP)
    assert (tmp_path / "fork-server.log").read_text() == ""


def test_a_server_that_dies_while_it_is_asked_leaves_us_no_zombies(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = psutil.Process(server_of(stage).pid)
    made = [*server.children(), *spares(server)]
    send = socket.send_fds

    def killed_before(*request: Any) -> int:
        server.kill()
        wait_until(lambda: all_gone(made))
        return send(*request)

    monkeypatch.setattr(socket, "send_fds", killed_before)
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    assert not set(made) & set(psutil.Process().children())


def test_a_spare_that_stalls_is_ended_and_leaves_us_no_zombie(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(stage)
    process = psutil.Process(server.pid)
    made = [process, *process.children(), *spares(process)]
    monkeypatch.setattr(spawning, "_END_S", 0.1)
    server._control.settimeout(0.1)
    made[-1].suspend()
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    assert all_gone(made)
    assert not set(made) & set(psutil.Process().children())


def test_what_a_server_leaves_is_reported_and_stays_in_the_undo_log(
    stage: Stage, undo_log: Remembered, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(stage)
    with monkeypatch.context() as stuck:
        stuck.setattr(spawning, "end_tree", lambda *_, **__: (7,))
        assert server.close() == (7,)
    assert undo_log.closed == []
    assert server.close() == ()
    assert undo_log.closed == [0]


def test_its_forks_outlive_a_server_that_was_killed(stage: Stage, spec: NodeSpec) -> None:
    stage.fleet.start(spec)
    node = started(stage)
    os.kill(server_of(stage).pid, signal.SIGKILL)
    for _ in range(3):
        stage.until(Kind.LEARNER_STEP)
    assert node.is_running()


def test_nothing_is_left_of_a_server_that_cannot_be_written_down(
    tmp_path: Path, spec: NodeSpec
) -> None:
    before = psutil.Process().children()
    with ForkingFleet(tmp_path, WallClock(), undo_log=Full()) as fleet:
        with pytest.raises(FleetError):
            fleet.start(spec)
        assert psutil.Process().children() == before


class Full(Remembered):
    """An undo log that takes in nothing of a fork server."""

    def open(self, do: str, **facts: object) -> int:
        if facts["node"] == "fork-server":
            raise FleetError("the disk is full")
        return super().open(do, **facts)


def test_another_environment_or_program_is_executed(stage: Stage, spec: NodeSpec) -> None:
    server = server_of(stage)
    assert server.serves(spec.command, spec.environment)
    assert not server.serves(spec.command, {"XLA_FLAGS": "other"})
    assert not server.serves((sys.executable, "-m", "another.program"), {})


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()",
         "started threads"),
        ("raise OSError('no such device')", "no such device"),
    ],
)  # fmt: skip
def test_a_program_that_cannot_be_imported_without_threads_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undo_log: Remembered, code: str, says: str
) -> None:
    (tmp_path / "bad_program.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = (sys.executable, "-m", "bad_program")
    server = ForkServer(program, {}, tmp_path, undo_log)
    log = tmp_path / "fork-server.log"
    wait_until(lambda: says in log.read_text())
    assert not server.serves(program, {})
    server.close()
    assert undo_log.closed == [0]


def test_the_program_of_the_learner_can_be_forked(tmp_path: Path, undo_log: Remembered) -> None:
    clock, program = WallClock(), (sys.executable, "-m", "chaoslab.diloco.learner")
    spec = NodeSpec(name="learner-0", role=Role.LEARNER, command=(*program, "--help"))
    with ForkingFleet(tmp_path, clock, undo_log=undo_log) as fleet:
        forks_of(fleet, *program, undo_log=undo_log)
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(spec)
        node = started(stage)
        assert stage.until(Kind.NODE_EXITED).data["exit_code"] == 0
    assert not node.is_running()
    home = tmp_path / "nodes" / "learner-0" / "1"
    assert "--syncer" in (home / "stdout.log").read_text()
    assert (home / "stderr.log").read_text() == ""
