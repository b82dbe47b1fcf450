"""Whatever becomes of the harness, nothing that it started outlives it, and nobody else is hurt."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from chaoslab.core.errors import FleetError
from chaoslab.core.events import Json
from chaoslab.core.payloads import JanitorDied
from chaoslab.core.process_identity import NODE_MARK, Identity, identify
from chaoslab.core.process_tree import end_tree, resume_tree, stopped
from chaoslab.links.netem import bands, netfilter, packet_rules
from chaoslab.links.ports import ReservedPort
from chaoslab.links.toxiproxy import undo_verbs as toxiproxy_undo_verbs
from chaoslab.undo import actions
from chaoslab.undo import leftovers as residue
from chaoslab.undo.actions import leftovers
from chaoslab.undo.catalogue import own_verbs
from chaoslab.undo.halt import find_runs as known_runs
from chaoslab.undo.halt import halt
from chaoslab.undo.harness import harness_of, is_in_progress
from chaoslab.undo.janitor import RESTARTS, Guard, find_runs, heal, perform, start_janitor
from chaoslab.undo.log import UNDO_LOG, UndoLogFile, open_undos
from chaoslab.undo.verbs import Healed, UndoEntry
from tests.contracts.fleet_kit import wait_until
from tests.contracts.harness_kit import HarnessKit, is_gone

ROOT = Path(__file__).parent.parent.parent


SLEEP = "import sys, time; held = list(map(open, sys.argv[1:])); print(); time.sleep(600)"


@contextmanager
def sleeping(*held: Path, mark: str = "") -> Iterator[psutil.Process]:
    """A process in a session of its own that has these files open and sleeps for ten minutes."""
    with subprocess.Popen(
        [sys.executable, "-S", "-u", "-c", SLEEP, *map(str, held)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        env={**os.environ, NODE_MARK: mark} if mark else None,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[psutil.Process]:
    """One that a run here, or its twin, has started."""
    with sleeping(mark=f"{tmp_path}/twin/learner-0/1") as process:
        yield process


def open_process(run_directory: Path, process: psutil.Process, *, off_by_ticks: int = 0) -> None:
    """Write down that the process must be ended, as a harness that is gone would have."""
    who = known(process.pid)
    facts = replace(who, start_ticks=who.start_ticks + off_by_ticks).facts
    mark = f"{run_directory}/learner-0/1"
    open_entry(run_directory, "end_process", node="learner-0", **facts, mark=mark)


def open_entry(run_directory: Path, do: str, **facts: Json) -> UndoEntry:
    """Leave one more entry, as a harness that is gone."""
    UndoLogFile(run_directory).open(do, **facts)
    forget_the_holder(run_directory)
    return open_undos(run_directory)[-1]


NOBODY: dict[str, Json] = {
    "pid": 2**22 + 1, "start_ticks": 1, "boot_id": "another", "namespaces": "others",
}  # fmt: skip


def known(pid: int) -> Identity:
    who = identify(pid)
    assert who is not None
    return who


def forget_the_holder(run_directory: Path) -> None:
    path = run_directory / UNDO_LOG
    lines = [line for line in path.read_text().splitlines() if "harness" not in line]
    path.write_text("".join(f"{line}\n" for line in lines))


def raising(error: Exception) -> Callable[..., NoReturn]:
    def raise_it(*_: object, **__: object) -> NoReturn:
        raise error

    return raise_it


# ---------------------------------------------------------------- the file


def test_a_torn_last_line_is_no_entry_and_spoils_nothing(tmp_path: Path) -> None:
    open_entry(tmp_path, "end_process", **NOBODY)
    with (tmp_path / UNDO_LOG).open("a") as file:
        file.write('{"open": 1, "do": "end_pro')
    assert [entry.number for entry in open_undos(tmp_path)] == [0]
    heal(tmp_path)
    assert heal(tmp_path) == Healed()


@pytest.mark.parametrize("error", [OSError("busy"), psutil.NoSuchProcess(7)], ids=["os", "process"])
def test_what_one_undo_runs_into_does_not_keep_the_others_from_theirs(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with UndoLogFile(tmp_path) as log:
        for do in ("resume_process", "end_process"):
            log.open(do, node="learner-0", **NOBODY)
    verbs = {"resume_process": replace(own_verbs()["resume_process"], undo=raising(error))}
    monkeypatch.setattr(actions, "verb_of", ChainMap(verbs, own_verbs()).get)
    (left,) = heal(tmp_path).remaining
    assert str(error) in left
    assert [entry.do for entry in open_undos(tmp_path)] == ["resume_process"]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    for line in ("nonsense", "17", '{"open": "x"}', '{"close": null}', '{"harness": {}}'):
        (tmp_path / UNDO_LOG).write_text(f"{{}}\n{line}\n{{}}\n")
        with pytest.raises(FleetError, match=f"{UNDO_LOG}:2"):
            heal(tmp_path)


def test_a_damaged_line_does_not_hide_who_runs_it_nor_keep_other_runs_from_being_found(
    tmp_path: Path,
) -> None:
    damaged, other = (tmp_path / "kill_half" / name for name in ("damaged", "other"))
    for run in (damaged, other):
        run.mkdir(parents=True)
        UndoLogFile(run).open("end_process", **NOBODY)
    with (damaged / UNDO_LOG).open("a") as file:
        file.write("nonsense\n")
    assert harness_of(damaged) == identify(os.getpid())
    assert {damaged, other} <= set(known_runs(tmp_path))
    for run in (damaged, other):
        forget_the_holder(run)
    assert find_runs(tmp_path) == (damaged, other)
    first, second = halt([damaged, other], within_s=0.0)
    (found,) = [one.what for one in residue.find(tmp_path) if one.where == str(damaged)]
    assert all(f"{UNDO_LOG}:2" in said for said in (first.remaining[0], found))
    assert second.remaining == open_undos(other) == ()


def test_a_disk_that_refuses_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(FleetError):
        UndoLogFile(tmp_path / "absent")


# ---------------------------------------------------------------- healing


def test_heal_undoes_open_entries_and_says_so_once(tmp_path: Path, sleeper: psutil.Process) -> None:
    open_process(tmp_path, sleeper)
    healed = heal(tmp_path)
    assert not healed.remaining
    assert len(healed.actions) == 1
    assert str(sleeper.pid) in healed.actions[0]
    assert is_gone(sleeper)
    assert heal(tmp_path) == Healed()
    assert not open_undos(tmp_path)


@pytest.mark.parametrize("off_by_ticks", [-360000, -1, 1])
def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(
    tmp_path: Path, sleeper: psutil.Process, off_by_ticks: int
) -> None:
    open_process(tmp_path, sleeper, off_by_ticks=off_by_ticks)
    assert heal(tmp_path) == Healed()
    assert not is_gone(sleeper)
    assert not open_undos(tmp_path)


def test_what_a_dead_node_left_is_known_by_its_mark(tmp_path: Path) -> None:
    with subprocess.Popen(["true"], start_new_session=True) as dead:
        who = known(dead.pid)
    mark = f"{tmp_path}/learner-0/1"
    orphan, stranger = (
        subprocess.Popen(
            [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
            env={**os.environ, NODE_MARK: value},
        )
        for value in (mark, f"{tmp_path}/learner-0/10")
    )
    UndoLogFile(tmp_path).open("end_process", **who.facts, mark=mark)
    assert perform(tmp_path).actions
    assert orphan.wait() == -signal.SIGKILL
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def in_use_by(run_directory: Path, **harness: Json) -> None:
    with (run_directory / UNDO_LOG).open("a") as file:
        file.write(json.dumps({"harness": harness}) + "\n")


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path, sleeper: psutil.Process) -> None:
    open_process(tmp_path, sleeper)
    with sleeping(tmp_path / UNDO_LOG) as harness:
        in_use_by(tmp_path, **known(harness.pid).facts)
        assert harness_of(tmp_path) == known(harness.pid)
        (said,) = heal(tmp_path).remaining
        assert str(harness.pid) in said
        assert not is_gone(sleeper)


def test_a_copy_of_a_record_ends_nobody_while_its_run_goes_on(tmp_path: Path) -> None:
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    UndoLogFile(run)
    with sleeping(mark=f"{run}/learner-0/1") as node, sleeping(run / UNDO_LOG) as harness:
        open_process(run, node)
        in_use_by(run, **known(harness.pid).facts)
        shutil.copytree(run, copy)
        text = (copy / UNDO_LOG).read_text()
        (copy / UNDO_LOG).write_text(text.replace(f"{run}/", f"{copy}/"))

        assert harness_of(copy) is None
        assert not is_in_progress(copy)
        for left in (heal(copy).remaining, *(one.remaining for one in halt([copy], within_s=9.0))):
            assert str(harness.pid) in left[0]
        forget_the_holder(copy)
        (said,) = heal(copy).remaining
        assert str(node.pid) in said
        assert not is_gone(node)
        assert not is_gone(harness)

        halt([run], within_s=60.0)
        assert is_gone(harness)
        assert is_gone(node)


@pytest.mark.parametrize("do", ["end_process", "resume_process", "unwedge_process"])
def test_an_entry_ends_and_wakes_no_process_that_the_run_did_not_start(
    do: str, tmp_path: Path
) -> None:
    with sleeping() as stranger:
        stranger.suspend()
        wait_until(lambda: stranger.status() == psutil.STATUS_STOPPED)
        entry = open_entry(tmp_path, do, node="learner-0", **known(stranger.pid).facts)
        (said,) = perform(tmp_path).remaining
        assert str(stranger.pid) in said
        assert open_undos(tmp_path) == (entry,)
        assert stranger.status() == psutil.STATUS_STOPPED


@pytest.mark.parametrize("folder", ["", "twin"])
def test_a_run_or_a_twin_of_another_machine_is_left_alone(
    tmp_path: Path, sleeper: psutil.Process, folder: str
) -> None:
    (tmp_path / "twin").mkdir()
    open_process(tmp_path / folder, sleeper)
    in_use_by(tmp_path / folder, pid=1, start_ticks=0, host="another")
    (said,) = heal(tmp_path).remaining
    assert "another" in said
    assert not is_gone(sleeper)
    forget_the_holder(tmp_path / folder)
    assert heal(tmp_path).actions
    assert is_gone(sleeper)


def test_what_makes_no_sense_does_not_keep_the_rest_from_being_done(tmp_path: Path) -> None:
    log = UndoLogFile(tmp_path)
    log.open("calm_the_sea")
    log.open("end_process", node="learner-0")
    log.open("end_process", node="learner-1", **NOBODY)
    assert ["calm_the_sea" in said for said in heal(tmp_path).remaining] == [True, False]
    assert [entry.number for entry in open_undos(tmp_path)] == [0, 1]


def test_find_runs_finds_those_with_open_entries_that_nobody_runs(tmp_path: Path) -> None:
    for name in ("unhealed", "runs", "done"):
        run = tmp_path / "kill_half" / name
        run.mkdir(parents=True)
        log = UndoLogFile(run)
        number = log.open("end_process", **NOBODY)
        if name == "done":
            log.close(number)
        if name != "runs":
            forget_the_holder(run)
    (tmp_path / "kill_half" / "latest").symlink_to("unhealed")
    assert find_runs(tmp_path) == (tmp_path / "kill_half" / "unhealed",)


# ---------------------------------------------------------------- a look at what was undone


def test_what_is_still_stopped_is_told_whatever_the_book_says(
    tmp_path: Path, sleeper: psutil.Process
) -> None:
    log = UndoLogFile(tmp_path)
    with log.due_within(5.0) as still_there:
        number = log.open("resume_process", node="learner-1", **known(sleeper.pid).facts)
    sleeper.suspend()
    wait_until(lambda: sleeper.status() == psutil.STATUS_STOPPED)
    ((node, said),) = still_there()
    assert node == "learner-1"
    assert str(sleeper.pid) in said
    log.close(number)
    assert not open_undos(tmp_path)
    assert still_there() == ((node, said),)
    (again,) = open_undos(tmp_path)
    assert again.do == "resume_process"
    sleeper.resume()
    wait_until(lambda: sleeper.status() != psutil.STATUS_STOPPED)
    assert still_there() == ()


def test_what_nobody_can_see_is_there_until_the_book_says_that_it_is_undone(
    tmp_path: Path,
) -> None:
    log = UndoLogFile(tmp_path)
    with log.due_within(None) as still_there:
        number = log.open("unwedge_process", node="learner-1", **known(os.getpid()).facts)
        log.open("end_process", **known(os.getpid()).facts, mark="")
    assert ["unwedge_process" in text for _, text in still_there()] == [True]
    log.close(number)
    assert still_there() == ()


def test_a_child_that_stays_stopped_is_seen_and_resumed(tmp_path: Path) -> None:
    """SIGCONT to the main process alone would leave it."""
    child = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, process_group=0
    ) as main:
        assert main.stdout is not None
        below = known(int(main.stdout.readline()))
        try:
            os.kill(below.pid, signal.SIGSTOP)
            wait_until(lambda: stopped(known(main.pid), "") == (below.pid,))
            assert resume_tree(known(main.pid), "", limit_s=60.0) == ()
            assert stopped(known(main.pid), "") == ()
        finally:
            assert end_tree(known(main.pid), "", limit_s=60.0) == ()


# ---------------------------------------------------------------- the death of the harness


@pytest.mark.parametrize(
    ("do", "facts", "what"),
    [
        (packet_rules.UNDO_DROPS, {"tool": "iptables"}, "rules of the kernel"),
        (packet_rules.UNDO_BANDS, {"interface": "lo"}, "queues of the kernel"),
        (
            "delete_proxy",
            {"api": "127.0.0.1:1", "proxy": "chaoslab-a-b"},
            "the proxy chaoslab-a-b at 127.0.0.1:1",
        ),
    ],
)
def test_what_links_left_is_named_and_undone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    do: str,
    facts: dict[str, str],
    what: str,
) -> None:
    undone: list[object] = []
    monkeypatch.setattr(netfilter.Iptables, "remove", lambda _, *done: undone.append(done))
    monkeypatch.setattr(netfilter.Iptables, "count", lambda *_: 2)
    monkeypatch.setattr(bands, "has_bands", lambda _: True)
    monkeypatch.setattr(bands, "close_bands", lambda *done: undone.append(done) or True)
    monkeypatch.setattr(toxiproxy_undo_verbs, "shown", lambda _: {"name": "chaoslab-a-b"})
    monkeypatch.setattr(toxiproxy_undo_verbs, "delete", lambda *done: undone.append(done))
    if do == packet_rules.UNDO_DROPS:
        facts = {**facts, "comment": f"chaoslab:{packet_rules.run_of(tmp_path)}:injection-0:1:up:0"}
    entry = open_entry(tmp_path, do, **facts)
    assert what in leftovers(entry)[0]
    assert what in heal(tmp_path).actions[0]
    assert len(undone) == 1
    assert not open_undos(tmp_path)


def test_a_proxy_that_is_gone_with_its_server_is_not_left(tmp_path: Path) -> None:
    with closing(ReservedPort()) as port:  # nobody listens there
        entry = open_entry(tmp_path, "delete_proxy", api=port.address, proxy="chaoslab-a-b")
        assert leftovers(entry) == ()
        assert heal(tmp_path).actions == ()
    assert not open_undos(tmp_path)


@pytest.mark.gate
class TestLocalHarness(HarnessKit):
    """The kit."""

    @pytest.fixture
    def kind(self) -> str:
        return "local"


@pytest.mark.deep
def test_the_janitor_stands_apart_and_is_deaf_to_signals(
    tmp_path: Path, sleeper: psutil.Process
) -> None:
    open_process(tmp_path, sleeper)
    with start_janitor(tmp_path) as guard:
        pid = guard.pid
        assert pid is not None
        janitor = psutil.Process(pid)
        assert os.getsid(pid) == pid
        wait_until(lambda: ignores(pid, signal.SIGTERM))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(pid, number)
        assert {Path(os.readlink(f"/proc/{pid}/fd/{fd}")).name for fd in (1, 2)} == {
            "null",
            "janitor.log",
        }
        assert not is_gone(janitor)
        assert not is_gone(sleeper)
    assert is_gone(janitor)
    assert is_gone(sleeper)


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


# ---------------------------------------------------------------- the death of the janitor


@pytest.mark.gate
def test_a_janitor_that_is_killed_is_replaced_and_its_successor_does_the_work(
    tmp_path: Path, sleeper: psutil.Process
) -> None:
    open_process(tmp_path, sleeper)
    with start_janitor(tmp_path) as guard:
        assert guard.lapse() is None
        lapse = killed(guard)
        assert (lapse.how, lapse.reason) == ("signal 9", "")
        assert lapse.successor == guard.pid
        assert lapse.successor not in (None, lapse.pid)
        assert guard.lapse() is None
        assert guard.beat() is None
        assert not is_gone(sleeper)
    assert is_gone(sleeper)


@pytest.mark.deep
def test_a_run_whose_janitors_all_die_is_told_and_does_their_work_itself(
    tmp_path: Path, sleeper: psutil.Process
) -> None:
    open_process(tmp_path, sleeper)
    with start_janitor(tmp_path) as guard:
        lapses = [killed(guard) for _ in range(RESTARTS + 1)]
        assert [lapse.successor is None for lapse in lapses] == [False] * RESTARTS + [True]
        assert guard.pid is None
        assert guard.beat() is None
        assert guard.lapse() is None
        assert not is_gone(sleeper)
    assert is_gone(sleeper)


@pytest.mark.deep
def test_a_janitor_that_cannot_be_started_again_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_janitor(tmp_path) as guard:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
        lapse = killed(guard)
        assert lapse.successor is None
        assert lapse.reason


def killed(guard: Guard) -> JanitorDied:
    """Its janitor, by SIGKILL: what the harness is told of that."""
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGKILL)
    found: list[JanitorDied] = []

    def is_told() -> bool:
        lapse = guard.lapse()
        found.extend([lapse] if lapse else [])
        return bool(found)

    wait_until(is_told)
    return found[0]
