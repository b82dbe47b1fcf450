"""Nodes as processes: the contract, and what only processes can do wrong."""

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.local.fleet import LocalFleet
from chaoslab.fleet.local.incarnation import WrappedIncarnation
from chaoslab.fleet.storage import volume
from chaoslab.undo.base import NoUndoLog
from tests.contracts.fleet_kit import LivingFleetKit, Stage, learner, staged, wait_until
from tests.fleet.local_stage import Remembered

pytestmark = [pytest.mark.deep]


@pytest.fixture
def stage(tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
    with staged(LocalFleet, tmp_path, undo_log) as stage:
        yield stage


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


@pytest.mark.gate
class TestLocalFleet(LivingFleetKit):
    """The kit."""


class Wrapped(WrappedIncarnation):
    wrapper = ("env", "WRAPPED=1")


class WrappedFleet(LocalFleet):
    kind = "wrapped"
    incarnation_class = Wrapped


class TestWrappedFleet(LivingFleetKit):
    """The kit, where each node is the child of another program."""

    @pytest.fixture
    def stage(self, tmp_path: Path, undo_log: Remembered) -> Iterator[Stage]:
        with staged(WrappedFleet, tmp_path, undo_log) as stage:
            yield stage
        assert sorted(undo_log.closed) == [*range(len(undo_log.opened))]


def test_a_wrapper_that_starts_nothing_is_no_node_and_the_next_try_is_free(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, undo_log: Remembered
) -> None:
    monkeypatch.setattr(LocalFleet, "incarnation_class", Wrapped)
    with monkeypatch.context() as broken:
        broken.setattr(Wrapped, "wrapper", ("sh", "-c", "echo no namespace >&2", "sh"))
        with pytest.raises(FleetError, match="no namespace"):
            stage.fleet.start(spec)
    assert undo_log.closed == [0]
    assert stage.fleet.restart(spec.name).incarnation == 1
    stage.until(Kind.LEARNER_STEP)


def test_the_next_life_is_told_after_the_end_of_the_last_although_that_is_noted_late(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet: Any = stage.fleet
    record, say_started, is_begun = fleet._record, fleet._say_started, threading.Event()

    def late(said: Sequence[Observation]) -> None:
        if any(one.kind is Kind.NODE_EXITED for one in said):
            is_begun.wait(0.5)
        record(said)

    def begun(life: object) -> None:
        say_started(life)
        is_begun.set()

    fleet.start(spec)
    stage.until_step_of(1)
    monkeypatch.setattr(fleet, "_record", late)
    monkeypatch.setattr(fleet, "_say_started", begun)
    with ThreadPoolExecutor(1) as beside:
        beside.submit(fleet.kill, spec.name).result()
        restarted = beside.submit(fleet.restart, spec.name)
        stage.until_step_of(2)
        restarted.result()
    kinds = [kind for kind, _ in stage.lives]
    assert kinds == [Kind.NODE_STARTED, Kind.NODE_EXITED, Kind.NODE_STARTED]


@pytest.mark.parametrize("is_there", [True, False])
def test_without_pidfds_a_node_is_paused_and_its_exit_noticed(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """The kernel refuses one, or it or Python has none."""

    def refused(pid: int) -> int:
        raise OSError(errno.EMFILE, f"no pidfd of {pid}")

    monkeypatch.setattr(os, "pidfd_open", refused)
    if not is_there:
        monkeypatch.delattr(os, "pidfd_open")
    stage.fleet.start(spec)
    stage.fleet.pause(spec.name)
    assert stage.fleet.probe(spec.name).data["state"] == "T"
    stage.fleet.kill(spec.name)
    assert stage.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"
    assert stage.fleet.restart(spec.name).incarnation == 2
    stage.until(Kind.LEARNER_STEP)


# ---------------------------------------------------------------- whole trees


@pytest.mark.gate
def test_a_kill_takes_children_that_left_session_and_group(stage: Stage, tmp_path: Path) -> None:
    stage.fleet.start(learner("learner-0", "--children", "2"))
    stage.until(Kind.LEARNER_STEP)
    children = children_of("learner-0", tmp_path)
    stage.fleet.kill("learner-0")
    stage.until(Kind.NODE_EXITED)
    assert len(children) == 2
    wait_until(lambda: all_gone(children))


@pytest.mark.parametrize("whose", ["--children", "--orphans"])
def test_a_pause_stops_children_that_left_session_and_group(
    stage: Stage, tmp_path: Path, whose: str
) -> None:
    stage.fleet.start(learner("learner-0", whose, "1"))
    stage.until(Kind.LEARNER_STEP)
    (child,) = children_of("learner-0", tmp_path)
    stage.fleet.pause("learner-0")
    wait_until(lambda: child.status() == psutil.STATUS_STOPPED)
    stage.fleet.resume("learner-0")
    wait_until(lambda: child.status() != psutil.STATUS_STOPPED)


def test_several_are_paused_and_killed_together_or_none_of_them(stage: Stage) -> None:
    for name in ("learner-0", "learner-1"):
        stage.fleet.start(learner(name))
    stage.fleet.pause("learner-0", "learner-1")
    assert [stage.fleet.probe(name).data["state"] for name in stage.fleet.nodes] == ["T", "T"]
    stage.fleet.kill("learner-0", "learner-1")
    while any(node.is_alive for node in stage.fleet.nodes.values()):
        stage.poll(0.1)
    stage.fleet.restart("learner-0")
    with pytest.raises(FleetError, match="learner-1"):
        stage.fleet.pause("learner-0", "learner-1")
    assert stage.fleet.probe("learner-0").data["state"] != "T"


# ---------------------------------------------------------------- prepared


def test_a_prepared_pause_has_one_entry_until_it_is_unprepared_or_over(
    stage: Stage, spec: NodeSpec, undo_log: Remembered
) -> None:
    stage.fleet.start(spec)
    stage.fleet.prepare(spec.name, to_pause=True)
    assert [one["do"] for one in undo_log.opened] == ["end_process", "resume_process"]
    for _ in range(2):
        stage.fleet.unprepare(spec.name)
        assert undo_log.closed == [1]
    stage.fleet.prepare(spec.name, to_pause=True)
    stage.fleet.pause(spec.name)
    stage.fleet.unprepare(spec.name)
    assert undo_log.closed == [1], "the entry of a pause that holds stays open"
    stage.fleet.resume(spec.name)
    assert (len(undo_log.opened), undo_log.closed) == (3, [1, 2])


def test_a_prepared_signal_reaches_who_was_started_since(stage: Stage, tmp_path: Path) -> None:
    stage.fleet.start(learner("learner-0", "--children", "1", "--hatch"))
    stage.until(Kind.LEARNER_STEP)
    stage.fleet.prepare("learner-0", to_pause=True)
    os.kill(int(str(stage.fleet.probe("learner-0").data["pid"])), signal.SIGHUP)
    stage.until(Kind.LEARNER_NOTICED)
    old, new = children_of("learner-0", tmp_path)
    stage.fleet.pause("learner-0")
    for child in (old, new):
        wait_until(lambda child=child: child.status() == psutil.STATUS_STOPPED)


def test_the_next_life_of_a_prepared_node_is_found_anew(stage: Stage, spec: NodeSpec) -> None:
    stage.fleet.start(spec)
    stage.fleet.prepare(spec.name)
    for incarnation in (1, 2):
        stage.fleet.kill(spec.name)
        exited = stage.until(Kind.NODE_EXITED)
        assert (exited.data["incarnation"], exited.data["signal"]) == (incarnation, "SIGKILL")
        stage.fleet.restart(spec.name)


def test_children_do_not_outlive_a_node_that_ends_by_itself(stage: Stage, tmp_path: Path) -> None:
    stage.fleet.start(learner("learner-0", "--children", "1", "--steps", "2"))
    exited = stage.until(Kind.NODE_EXITED)
    assert exited.data["exit_code"] == 0
    assert all_gone(children_of("learner-0", tmp_path))


# ---------------------------------------------------------------- output


def test_all_last_lines_come_before_the_exit(stage: Stage) -> None:
    stage.fleet.start(learner("learner-0", "--steps", "1", "--last-lines", "2000"))
    stage.until(Kind.NODE_EXITED)
    assert stage.kinds.count(Kind.LEARNER_STEP) == 2001
    assert stage.kinds[-2:] == [Kind.LEARNER_LEFT, Kind.NODE_EXITED]


def test_a_node_that_prints_without_end_holds_up_nobody(stage: Stage) -> None:
    stage.fleet.start(learner("learner-0", "--spew"))
    stage.fleet.start(learner("learner-1"))
    for _ in range(20):
        stage.until(Kind.LEARNER_STEP, node="learner-1")
    begin_s = stage.clock.now_s()
    stage.fleet.kill("learner-1")
    stage.until(Kind.NODE_EXITED, node="learner-1")
    stage.fleet.poll(begin_s)
    assert stage.fleet.nodes["learner-0"].is_alive


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"fault.injected","data":{"injection":"injection-0"}}',
        '{"kind":"verdict.reached","data":{"outcome":"PASS"}}',
        '{"kind":"round.merged","data":{"round":1,"contributors":[],"committed_tokens":9.5}}',
        '{"kind":"node.exited","data":{"node":"learner-1"}}',
        '{"kind":"learner.step","data":{"learner":"learner-1","incarnation":1,"step":1}}',
        '{"kind":"learner.step","data":{"learner":"learner-0","incarnation":1}}',
        '{"kind":"learner.step"',
        '{"kind":' + "[" * 100_000,
    ],
)
def test_what_a_learner_may_not_say_is_refused_and_counted(stage: Stage, line: str) -> None:
    stage.fleet.start(learner("learner-0", "--say", line, "--steps", "1"))
    exited = stage.until(Kind.NODE_EXITED)
    assert exited.data["refused_lines"] == 1
    assert {one.source for one in stage.seen} == {"learner-0"}
    assert set(stage.kinds) <= {
        Kind.NODE_STARTED,
        Kind.LEARNER_STARTED,
        Kind.LEARNER_STEP,
        Kind.LEARNER_LEFT,
        Kind.NODE_EXITED,
    }


# ---------------------------------------------------------------- hooks and patience


def test_hooks_do_nothing_to_a_program_that_has_none(stage: Stage) -> None:
    stage.fleet.start(learner("learner-0", "--deaf"))
    stage.fleet.wedge("learner-0")
    stage.fleet.notice("learner-0")
    stage.fleet.unwedge("learner-0")
    stage.until(Kind.LEARNER_STEP)
    assert stage.fleet.nodes["learner-0"].is_alive


def test_restart_ends_a_node_that_does_not_leave_when_told(stage: Stage) -> None:
    stage.fleet.start(learner("learner-0", "--stubborn"))
    stage.until(Kind.LEARNER_STEP)
    stage.fleet.signal("learner-0", signal="SIGTERM")
    assert stage.fleet.restart("learner-0").incarnation == 2


def test_a_node_that_cannot_be_killed_holds_up_the_harness_once(
    stage: Stage, spec: NodeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in an uninterruptible system call, which no signal reaches."""
    stage.fleet.start(spec)
    stage.until(Kind.LEARNER_STEP)
    fleet, waited = stage.fleet, list[float]()
    assert isinstance(fleet, LocalFleet)
    with monkeypatch.context() as unreachable:
        unreachable.setattr(fleet, "_signal", lambda lives, name: None)
        unreachable.setattr(fleet, "_wait_for", lambda lives, limit_s: waited.append(limit_s))
        fleet.kill("learner-0")
        for _ in range(3):
            with pytest.raises(FleetError, match="learner-0"):
                fleet.restart("learner-0")
    first, *later = waited[0] + waited[1], waited[2] + waited[3], waited[4] + waited[5]
    assert later == [1.0, 1.0]
    assert first > 5.0
    assert fleet.restart("learner-0").incarnation == 2


def test_an_unknown_signal_is_refused(stage: Stage, spec: NodeSpec) -> None:
    stage.fleet.start(spec)
    with pytest.raises(FleetError, match="SIGNONSENSE"):
        stage.fleet.signal(spec.name, signal="SIGNONSENSE")


# ---------------------------------------------------------------- the record


def test_each_life_leaves_its_files_and_has_an_entry_until_its_end(
    stage: Stage, spec: NodeSpec, tmp_path: Path, undo_log: Remembered
) -> None:
    stage.fleet.start(replace(spec, environment={"NPROC": "1"}))
    pid = stage.until(Kind.NODE_STARTED).data["pid"]
    assert (undo_log.opened[0]["do"], undo_log.opened[0]["pid"]) == ("end_process", pid)
    assert not undo_log.closed
    stage.fleet.kill(spec.name)
    assert stage.until(Kind.NODE_EXITED).data["last_words"] == ""
    stage.fleet.restart(spec.name)
    stage.until(Kind.LEARNER_STEP)
    stage.fleet.__exit__(None, None, None)
    assert undo_log.closed == [0, 1]
    home = tmp_path / "nodes" / spec.name
    for incarnation in ("1", "2"):
        files = {path.name for path in (home / incarnation).iterdir()}
        assert files == {"stdout.log", "stderr.log", "command.json", "exit.json"}
        assert json.loads((home / incarnation / "exit.json").read_text())["signal"] == "SIGKILL"
    command = json.loads((home / "2" / "command.json").read_text())
    assert command["argv"][-1] == "2"
    assert command["environment"] == {"NPROC": "1"}


def test_a_node_that_failed_by_itself_has_its_last_words_in_its_exit(stage: Stage) -> None:
    says = "import sys; sys.exit('so it goes')"
    stage.fleet.start(replace(learner("learner-0"), command=(sys.executable, "-S", "-c", says)))
    assert stage.until(Kind.NODE_EXITED).data["last_words"] == "so it goes"


def test_the_directory_of_a_node_is_filled_in_and_shared_by_its_lives(
    stage: Stage, tmp_path: Path
) -> None:
    words = ("sh", "-c", "echo {directory} {incarnation}")
    stage.fleet.start(NodeSpec(name="learner-0", role=Role.LEARNER, command=words))
    stage.until(Kind.NODE_EXITED)
    stage.fleet.restart("learner-0")
    stage.until(Kind.NODE_EXITED)
    home = tmp_path / "nodes" / "learner-0"
    assert [(home / n / "stdout.log").read_text() for n in "12"] == [f"{home} 1\n", f"{home} 2\n"]


@pytest.mark.gate
def test_a_start_that_cannot_be_written_down_does_not_happen_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    class FullAtFirst(NoUndoLog):
        is_full = True

        def open(self, do: str, **facts: object) -> int:
            if self.is_full:
                raise FleetError("the disk is full")
            return 0

    undo_log, before = FullAtFirst(), psutil.Process().children()
    with staged(LocalFleet, tmp_path, undo_log) as stage:
        with pytest.raises(FleetError, match="full"):
            stage.fleet.start(learner("learner-0"))
        assert not {*psutil.Process().children()} - {*before}
        assert not stage.poll(0.0)
        undo_log.is_full = False
        assert stage.fleet.restart("learner-0").incarnation == 1
        stage.until(Kind.LEARNER_STEP)


def test_an_error_that_came_too_late_for_a_poll_is_told_when_the_fleet_is_left(
    tmp_path: Path,
) -> None:
    """Beside the error with which it is left, if there is one."""
    first, untold = KeyError("first"), FleetError("the engine has ended its report")
    fleet = LocalFleet(tmp_path, WallClock(), undo_log=NoUndoLog())
    with pytest.raises(FleetError), fleet:
        fleet._troubles.append(untold)
    another = LocalFleet(tmp_path, WallClock(), undo_log=NoUndoLog())
    another._troubles.append(untold)
    with pytest.raises(KeyError), another:
        raise first
    assert first.__notes__ == [str(untold)]


def test_a_missing_program_is_refused_with_a_way_out(stage: Stage) -> None:
    with pytest.raises(FleetError, match="no-such-program"):
        stage.fleet.start(
            NodeSpec(name="learner-0", role=Role.LEARNER, command=("no-such-program",))
        )


# ---------------------------------------------------------------- helpers


def children_of(name: str, run_directory: Path) -> list[psutil.Process]:
    """The children that a node printed, as far as they live."""
    log = (run_directory / "nodes" / name / "1" / "stdout.log").read_text()
    pids = [int(line.split()[1]) for line in log.splitlines() if line.startswith("child ")]
    assert pids
    return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]


def all_gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them runs; a zombie that nobody reaps is gone."""
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


# ---------------------------------------------------------------- what a node keeps


@pytest.mark.skipif(not volume.can_mount(), reason="this machine may not mount")
def test_a_volume_lives_as_long_as_its_fleet_and_its_entry_is_open_meanwhile(
    tmp_path: Path, undo_log: Remembered
) -> None:
    kept = tmp_path / "nodes" / "learner-0" / "kept"
    with LocalFleet(tmp_path, WallClock(), undo_log=undo_log) as fleet:
        fleet.start(replace(learner("learner-0"), keeps="kept", has_volume=True))
        assert volume.is_mounted(kept)
        (kept / "state").write_bytes(bytes(100))
        fleet.fill_disk("learner-0")
        with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
            (kept / "more").write_bytes(bytes(10_000))
        assert [entry["do"] for entry in undo_log.opened] == [
            "unmount", "end_process", "free_volume",
        ]  # fmt: skip
        fleet.free_disk("learner-0")
        assert undo_log.closed == [2]
    assert sorted(undo_log.closed) == [0, 1, 2]
    assert not volume.is_mounted(kept)
    assert (kept / "state").read_bytes() == bytes(100)
