"""What a machine can do, and what was left on it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from chaoslab.cli.commands import doctor
from chaoslab.cli.commands import heal as heal_command
from chaoslab.cli.commands.doctor import examine, repair
from chaoslab.core.private_files import make_folder
from chaoslab.core.process_identity import NODE_MARK, identify
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.storage import volume
from chaoslab.links.effects import Direction
from chaoslab.links.netem import netfilter
from chaoslab.links.netem.netfilter import Drop
from chaoslab.links.toxiproxy import server_binary
from chaoslab.undo.janitor import heal
from chaoslab.undo.leftovers import Leftover
from chaoslab.undo.log import UNDO_LOG, UndoLogFile
from chaoslab.undo.verbs import State
from tests.contracts.fleet_kit import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.alone]


def test_every_ability_says_what_it_is_and_what_to_do(tmp_path: Path) -> None:
    abilities = examine(tmp_path / "runs").abilities
    assert len({one.name for one in abilities}) == len(abilities)
    assert all(one.detail for one in abilities)
    assert not any(one.remedy for one in abilities if one.state is State.OK)


def test_a_machine_without_tools_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CHAOSLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    found = {one.name: one for one in examine(tmp_path).abilities}
    for name in ("docker", "toxiproxy"):
        assert (found[name].state, bool(found[name].remedy)) == (State.MISSING, True)


def test_what_can_be_had_is_obtained_and_only_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_binary, "install", lambda: tmp_path / "toxiproxy-server")
    monkeypatch.setattr(server_binary, "find", lambda: None)
    assert "toxiproxy-server" in repair(examine(tmp_path))[0]
    monkeypatch.setattr(server_binary, "find", lambda: tmp_path / "toxiproxy-server")
    assert not repair(examine(tmp_path))


def test_a_kernel_without_pidfd_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    found = {one.name: one for one in examine(tmp_path).abilities}
    assert found["pidfd"].state is State.LIMITED


@pytest.mark.parametrize(
    ("where", "asked", "can", "ability", "state"),
    [
        (doctor, "is_realtime_permitted", True, "real-time priority", State.OK),
        (doctor, "is_realtime_permitted", False, "real-time priority", State.LIMITED),
        (volume, "can_mount", True, "volumes", State.OK),
        (volume, "can_mount", False, "volumes", State.MISSING),
    ],
)
def test_what_the_system_does_not_allow_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, asked: str, can: bool,
    ability: str, state: State,
) -> None:  # fmt: skip
    monkeypatch.setattr(where, asked, lambda: can)
    (found,) = (one for one in examine(tmp_path).abilities if one.name == ability)
    assert (found.state, bool(found.remedy)) == (state, not can)


def residue(root: Path, where: Path | str) -> list[Leftover]:
    return [one for one in examine(root).residue if one.where == str(where)]


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[psutil.Process]:
    """A process called like a learner whose parent is dead."""
    script = "import time; time.sleep(600)"
    launcher = (
        "import os, subprocess, sys;"
        f"print(subprocess.Popen([sys.executable, '-S', '-c', {script!r}, 'chaoslab.diloco.x'],"
        " start_new_session=True, stdout=-3, stderr=-3).pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", launcher],
        env={**os.environ, NODE_MARK: f"{tmp_path}/kill_half/20260101T000000Z-abcdef/learner-0/1"},
        capture_output=True,
        text=True,
        check=True,
    )
    process = psutil.Process(int(done.stdout))
    wait_until(lambda: "chaoslab.diloco.x" in process.cmdline())
    yield process
    if process.is_running():
        process.kill()


def test_a_node_without_its_harness_is_residue(tmp_path: Path, orphan: psutil.Process) -> None:
    (mine,) = residue(tmp_path, f"{tmp_path}/kill_half/20260101T000000Z-abcdef/learner-0/1")
    assert mine.remedy == f"kill -KILL {orphan.pid}"


def test_a_run_that_left_living_processes_is_residue_until_it_is_healed(
    tmp_path: Path, orphan: psutil.Process
) -> None:
    run = tmp_path / "kill_half" / "20260101T000000Z-abcdef"
    run.mkdir(parents=True)
    orphaned = identify(orphan.pid)
    with UndoLogFile(run) as log:
        log.open("end_process", **orphaned.facts, mark=f"{run}/learner-0/1")
    (left,) = residue(tmp_path, run)
    assert left.remedy == f"chaoslab heal {run}"
    assert heal(run).actions
    assert not residue(tmp_path, run)
    assert (run / UNDO_LOG).exists()


def test_half_a_file_in_the_record_of_a_dead_run_is_residue_until_it_is_healed(
    tmp_path: Path,
) -> None:
    run = tmp_path / "kill_half" / "20260101T000000Z-abcdef"
    run.mkdir(parents=True)
    (run / ".run.json.new").write_text("{")
    (found,) = residue(tmp_path, run)
    assert found.remedy == f"chaoslab heal {run}"
    heal(run)
    assert not residue(tmp_path, run)


def test_keys_of_a_dead_harness_are_residue_until_all_is_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as dead:
        pass
    of_dead, of_living = (
        tmp_path / f"chaoslab-private-{pid}-{'0' * 16}-{'1' * 8}" for pid in (dead.pid, os.getpid())
    )
    for folder in (of_dead, of_living):
        make_folder(folder)
    runs = ("--out", str(tmp_path / "runs"))

    def heal_all(*options: str) -> str:
        done = CliRunner().invoke(
            heal_command.command, ["--all", *options, *runs], catch_exceptions=False
        )
        assert done.exit_code == 0
        return done.stdout

    (found,) = residue(tmp_path, of_dead)
    assert f"{of_dead}: would undo by {found.remedy}" in heal_all("--dry-run")
    assert of_dead.exists()
    assert f"{of_dead}: removed" in heal_all()
    assert (of_dead.exists(), of_living.exists()) == (False, True)
    assert not residue(tmp_path, of_dead)


def test_a_volume_without_a_run_is_residue_and_its_remedy_removes_it(tmp_path: Path) -> None:
    if not volume.can_mount():
        pytest.skip("this process may not mount")
    folder = tmp_path / "run" / "nodes" / "learner-0" / "state"
    volume.mount(folder)
    (found,) = residue(tmp_path, folder)
    subprocess.run(found.remedy, shell=True, check=True)
    assert not residue(tmp_path, folder)


def test_a_cgroup_of_a_dead_harness_is_residue_and_its_remedy_removes_it(tmp_path: Path) -> None:
    home = cgroups.where(Controller.CPU)
    if home is None:
        pytest.skip("no cgroup can be made here")
    with subprocess.Popen(["true"]) as dead:
        pass
    group = cgroups.Cgroup(home, f"{dead.pid}-learner-0-1-injection-0")
    group.make()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        group.take_in([sleeper.pid])
        (found,) = residue(tmp_path, group.path)
        subprocess.run(["bash", "-c", found.remedy], check=True)
        assert not group.path.exists()
        assert sleeper.poll() is None
        sleeper.kill()


def test_a_rule_for_packets_that_no_run_names_is_residue_and_its_remedy_removes_it(
    tmp_path: Path,
) -> None:
    if not netfilter.is_available()[0]:
        pytest.skip("packets cannot be dropped here")
    drop = Drop(comment=f"chaoslab:{tmp_path.name}:x", port=9, way=Direction.UP, share=0.1)
    tool = netfilter.drops()
    tool.add(drop)
    try:
        found = [one for one in examine(tmp_path).residue if drop.comment in one.what]
        assert len(found) == 2
        for one in found:
            subprocess.run(["bash", "-c", one.remedy], check=True)
        assert not [one for one in examine(tmp_path).residue if drop.comment in one.what]
    finally:
        tool.remove(drop.comment)
