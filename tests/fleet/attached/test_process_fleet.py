"""Attached processes: whatever is done to them, they run afterwards, once, and as before."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Observation
from chaoslab.fleet.attached import restoring
from chaoslab.fleet.attached.found import Found, command_of
from chaoslab.fleet.attached.processes import AttachedProcess, ProcessFleet, find, recipe_of
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.settings import FleetRequest
from chaoslab.undo.janitor import perform
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("stand_in.py")
VICTIM = "learner-1"


class StandIns:
    """A syncer and two learners that train nothing."""

    def __init__(self, folder: Path, *flags: str, outputs: str = "{name}.log") -> None:
        self.folder = folder
        self.place = folder / "place"
        self.place.mkdir()
        self._outputs = outputs
        self._parents: list[subprocess.Popen[bytes]] = []
        self._flags: dict[str, tuple[str, ...]] = {}
        self.fleets: list[ProcessFleet] = []
        port = folder / "port"
        self.syncer = self._start("syncer", "syncer", "--port-file", str(port)).pid
        wait_until(port.exists)
        for name in ("learner-0", VICTIM):
            self._start(name, "learner", "--syncer", f"127.0.0.1:{port.read_text()}", *flags)
        wait_until(lambda: len(self.alive()) == 3)
        logs = [folder / outputs.format(name=name) for name in ("learner-0", VICTIM)]
        wait_until(lambda: all("joined" in log.read_text() for log in logs))

    def _start(self, name: str, role: str, *flags: str) -> "subprocess.Popen[bytes]":
        self._flags[name] = (role, *flags)
        with (self.folder / self._outputs.format(name=name)).open("ab") as output:
            self._parents.append(
                subprocess.Popen(
                    [sys.executable, "-I", "-S", str(PROGRAM), f"chaoslab.diloco.{role}",
                     "--name", name, *flags],
                    stdout=output, stderr=subprocess.STDOUT, cwd=self.place,
                )
            )  # fmt: skip
        return self._parents[-1]

    def start_again(self, name: str) -> None:
        """As a supervisor does."""
        self._start(name, *self._flags[name])

    def alive(self) -> list[str]:
        return sorted(name for name, _ in self.processes())

    def said(self, name: str) -> list[str]:
        return (self.folder / f"{name}.log").read_text().splitlines()

    def processes(self) -> Iterator[tuple[str, psutil.Process]]:
        for parent in self._parents:
            parent.poll()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if str(PROGRAM) in words and not is_dead and self._is_ours(process):
                    yield words[words.index("--name") + 1], process

    def _is_ours(self, process: psutil.Process) -> bool:
        return process.cwd().startswith(str(self.folder))

    def end(self) -> None:
        """Of a harness that was killed, too, nothing stays open."""
        for life in [life for fleet in self.fleets for life in fleet._lives.values()]:
            if not life.is_over:
                life.detach()
        for fleet in self.fleets:
            fleet._place.recipes.close()
        for _, process in list(self.processes()):
            process.kill()
        for parent in self._parents:
            parent.kill()
            parent.wait(30)


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(restoring, "_STAYS_S", 0.05)
    for limit in ("_GOING_S", "_EXECVE_S"):
        monkeypatch.setattr(restoring, limit, 60.0)  # for a busy machine


@pytest.fixture
def training(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[StandIns]:
    stand_ins = StandIns(tmp_path, *getattr(request, "param", ()))
    try:
        yield stand_ins
    finally:
        stand_ins.end()


def attached(training: StandIns, run: str = "run", *, restarts: bool = True) -> ProcessFleet:
    """A fleet that was entered and has taken the nodes up."""
    folder = training.folder / run
    folder.mkdir(mode=0o700)
    fleet = ProcessFleet(
        Place(run_directory=folder, clock=WallClock(), undo_log=UndoLogFile(folder)),
        FleetRequest(), syncer=training.syncer, restarts=restarts,
    )  # fmt: skip
    fleet.__enter__()
    training.fleets.append(fleet)
    fleet.adopt({})
    poll(fleet)
    return fleet


@pytest.fixture
def fleet(training: StandIns) -> ProcessFleet:
    """One that has taken the nodes up; `training` ends it."""
    return attached(training)


def test_what_reads_meanwhile_waits_until_all_are_taken_up(
    training: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take one that is not there yet for one that others have started."""
    known: list[int] = []
    adopted = ProcessFleet._adopted

    def read_meanwhile(fleet: ProcessFleet, spec: NodeSpec, found: Found) -> AttachedProcess:
        fleet._wait(0.0)
        return adopted(fleet, spec, found)

    def counted(fleet: ProcessFleet) -> list[Observation]:
        known.append(len(fleet._lives))
        return []

    monkeypatch.setattr(ProcessFleet, "_adopted", read_meanwhile)
    monkeypatch.setattr(ProcessFleet, "_news", counted)
    poll(attached(training))
    assert set(known) == {3}


def poll(fleet: ProcessFleet) -> None:
    fleet.poll(fleet._place.clock.now_s() + 0.1)


def leave(fleet: ProcessFleet) -> None:
    fleet.__exit__(None, None, None)


def gone(training: StandIns, fleet: ProcessFleet) -> None:
    def is_gone() -> bool:
        poll(fleet)
        return VICTIM not in training.alive() and not fleet.nodes[VICTIM].is_alive

    wait_until(is_gone)


ALL = ["learner-0", VICTIM, "syncer"]


def test_who_was_killed_runs_after_leaving_once_and_who_ended_by_itself_does_not(
    training: StandIns, fleet: ProcessFleet
) -> None:
    next(process for name, process in training.processes() if name == "learner-0").kill()
    wait_until(lambda: poll(fleet) is None and not fleet.nodes["learner-0"].is_alive)
    fleet.kill(VICTIM)
    gone(training, fleet)
    leave(fleet)
    assert training.alive() == [VICTIM, "syncer"]
    assert open_undos(training.folder / "run") == ()


def test_a_thread_that_hangs_is_released_on_leaving(
    training: StandIns, fleet: ProcessFleet
) -> None:
    fleet.wedge(VICTIM)
    wait_until(lambda: "hung" in training.said(VICTIM))
    leave(fleet)
    wait_until(lambda: "released" in training.said(VICTIM))


@pytest.mark.parametrize(("training", "is_killed"), [
    (("--slow-term", "0.2"), True), (("--slow-term", "0.2"), False),
    (("--slow-term", "600"), False),
], indirect=["training"])  # fmt: skip
def test_a_node_that_is_still_ending_is_waited_for_and_at_last_killed(
    training: StandIns, fleet: ProcessFleet, *, is_killed: bool
) -> None:
    """By the fleet, or by the janitor if the harness is killed."""
    fleet.signal(VICTIM, signal="SIGTERM")
    if is_killed:
        assert perform(training.folder / "run").remaining == ()
    else:
        leave(fleet)
    assert training.alive() == ALL
    wait_until(lambda: len(training.said(VICTIM)) == 2)  # it says twice that it joined


@pytest.mark.parametrize("training", [("--obeys-notice",)], indirect=True)
def test_a_node_that_left_because_of_a_notice_is_brought_back(
    training: StandIns, fleet: ProcessFleet
) -> None:
    fleet.notice(VICTIM)
    gone(training, fleet)
    assert perform(training.folder / "run").remaining == ()
    assert training.alive() == ALL


def test_what_cannot_be_restored_at_once_can_be_later(
    training: StandIns, fleet: ProcessFleet
) -> None:
    """Its recipe is kept until then."""
    fleet.kill(VICTIM)
    gone(training, fleet)
    run, away = training.folder / "run", training.folder / "away"
    training.place.rename(away)
    assert VICTIM in " ".join(perform(run).remaining)
    away.rename(training.place)
    assert perform(run).remaining == ()
    assert training.alive() == ALL
    assert open_undos(run) == ()


def test_fleet_and_janitor_at_once_start_it_once(training: StandIns, fleet: ProcessFleet) -> None:
    fleet.kill(VICTIM)
    gone(training, fleet)
    threads = [
        threading.Thread(target=leave, args=(fleet,)),
        threading.Thread(target=perform, args=(training.folder / "run",)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert training.alive() == ALL


def test_who_prints_into_one_file_is_refused(tmp_path: Path) -> None:
    training = StandIns(tmp_path, outputs="all.log")
    try:
        with pytest.raises(AbilityError, match=r"all\.log"):
            attached(training)
    finally:
        training.end()


def test_who_could_not_be_started_again_is_refused(training: StandIns) -> None:
    training.place.rmdir()
    with pytest.raises(AbilityError, match=str(training.place)):
        attached(training)


def test_who_ends_while_it_is_looked_at_is_an_error_that_names_the_node() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    command = command_of(["python", "-m", "chaoslab.diloco.learner", "--name", VICTIM])
    assert command is not None
    found = Found(
        name=VICTIM, role=Role.LEARNER, where=f"process {ended.pid}", handle=str(ended.pid),
        command=command,
    )  # fmt: skip
    with pytest.raises(FleetError, match=f"{VICTIM} .*process {ended.pid}"):
        recipe_of(found)


@pytest.mark.parametrize("restarts", [True, False])
def test_a_stopped_node_goes_on(training: StandIns, *, restarts: bool) -> None:
    fleet = attached(training, restarts=restarts)
    fleet.pause(VICTIM)
    victim = next(process for name, process in training.processes() if name == VICTIM)
    wait_until(lambda: victim.status() == psutil.STATUS_STOPPED)
    assert perform(training.folder / "run").remaining == ()
    wait_until(lambda: victim.status() != psutil.STATUS_STOPPED)


def test_where_one_of_several_nodes_cannot_be_paused_the_others_go_on(
    training: StandIns, fleet: ProcessFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise FleetError("refused")

    monkeypatch.setattr(fleet._lives["learner-0"], "signal_all", refuse)
    with pytest.raises(FleetError, match="refused"):
        fleet.pause(VICTIM, "learner-0")
    victim = next(process for name, process in training.processes() if name == VICTIM)
    assert victim.status() != psutil.STATUS_STOPPED
    assert not any(one.do == restoring.RESTORE for one in open_undos(training.folder / "run"))


# ---------------------------------------------------------------- one run at a time


def test_a_second_run_is_refused_by_name_until_the_first_has_left(training: StandIns) -> None:
    first = attached(training)
    with pytest.raises(FleetError) as refused:
        attached(training, "second")
    assert f"process {os.getpid()}" in str(refused.value)
    assert str(training.folder / "run") in str(refused.value)
    leave(training.fleets[-1])  # the one that was refused, which gives nothing back
    with pytest.raises(FleetError, match=f"process {os.getpid()}"):
        attached(training, "third")
    leave(first)
    leave(attached(training, "fourth"))
    assert training.alive() == ALL


def test_a_training_is_the_same_when_its_syncer_was_started_again(
    training: StandIns, fleet: ProcessFleet
) -> None:
    syncer = next(node for node in find(training.syncer) if node.role is Role.SYNCER)
    before = fleet._identity([syncer])
    fleet.kill("syncer")
    fleet.restart("syncer")
    (again,) = [process.pid for name, process in training.processes() if name == "syncer"]
    assert again != training.syncer
    assert fleet._identity([replace(syncer, handle=str(again))]) == before


# ---------------------------------------------------------------- who is started by others


def test_who_is_started_by_others_is_waited_for_and_taken_up(training: StandIns) -> None:
    fleet = attached(training, restarts=False)
    fleet.kill(VICTIM)
    assert not fleet.restart(VICTIM).is_alive
    assert training.alive() == ["learner-0", "syncer"]
    training.start_again(VICTIM)
    wait_until(lambda: fleet.restart(VICTIM).is_alive)
    assert fleet.nodes[VICTIM].incarnation == 2
    leave(fleet)
    assert training.alive() == ALL


def test_a_node_that_others_start_again_has_no_undo_entry(training: StandIns) -> None:
    fleet = attached(training, restarts=False)
    fleet.pause("learner-0")
    fleet.notice(VICTIM)
    fleet.kill(VICTIM)
    gone(training, fleet)
    run = training.folder / "run"
    assert {one.facts.get("node") for one in open_undos(run)} == {None, "learner-0"}
    fleet.kill("learner-0")
    wait_until(lambda: training.alive() == ["syncer"])
    assert perform(run).remaining == ()
    leave(fleet)
    assert training.alive() == ["syncer"]
    assert open_undos(run) == ()


def test_who_could_not_be_started_here_is_taken_if_others_do(training: StandIns) -> None:
    training.place.rmdir()
    leave(attached(training, restarts=False))


# ---------------------------------------------------------------- what nodes say


def test_what_poll_has_yet_to_return_keeps_no_core_busy(
    training: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, turns = attached(training), 0

    def news() -> list[Observation]:
        nonlocal turns
        turns += 1
        return []

    monkeypatch.setattr(fleet, "_news", news)
    fleet._observed.append(fleet._lives[VICTIM].probe())
    fleet._wait_for([fleet._lives[VICTIM]], 0.1)
    assert turns < 20
    leave(fleet)


def test_lines_that_are_refused_are_counted_while_a_node_runs(
    training: StandIns, fleet: ProcessFleet
) -> None:
    assert fleet.refused_lines == {}
    with (training.folder / f"{VICTIM}.log").open("a") as log:
        log.write('{"kind": "round.merged", "data": {}}\n' * 2)
    wait_until(lambda: poll(fleet) is None and fleet.refused_lines == {VICTIM: 2})
    fleet.kill(VICTIM)
    gone(training, fleet)
    assert fleet.refused_lines == {}
