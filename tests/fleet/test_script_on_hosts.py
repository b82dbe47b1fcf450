"""A script on hosts: what its agents are told, what is missing there, where it is started."""

import io
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind, Observation
from chaoslab.fleet.base import NodeSpec, Role
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.host_agent.fleet import HostedFleet
from chaoslab.fleet.remote.host_agent.scripts import as_here, begin_script, unstartable
from chaoslab.fleet.remote.protocol.messages import as_json
from chaoslab.fleet.remote.scripts import RemoteScriptFleet
from chaoslab.fleet.settings import Reading
from chaoslab.trainers.reading import OWN_LINES
from chaoslab.trainers.sources import SourceSettings
from chaoslab.undo.log import UndoLogFile
from tests.fleet.fake_agents import FakeHost, fake_ground
from tests.fleet.local_stage import Remembered
from tests.waiting import wait_until

READING = Reading(patterns=OWN_LINES, is_elsewhere=False, restarts="chaoslab")
WORKERS = tuple(
    NodeSpec(name=f"worker-{rank}", role=Role.LEARNER, command=("train",), reads=OWN_LINES)
    for rank in range(2)
)
LAUNCHER = NodeSpec(
    name="launcher", role=Role.LAUNCHER, command=("launch",), reads=OWN_LINES, launches=WORKERS
)
Make = Callable[[dict[str, list[str]]], tuple[RemoteScriptFleet, list[FakeHost]]]


@pytest.fixture
def make(tmp_path: Path, undo_log: Remembered) -> Iterator[Make]:
    with ExitStack() as stack:

        def one(place: dict[str, list[str]]) -> tuple[RemoteScriptFleet, list[FakeHost]]:
            hosts = [FakeHost(name) for name in dict.fromkeys(chain(*place.values()))]
            fleet = RemoteScriptFleet(
                Place(run_directory=tmp_path, clock=WallClock(), undo_log=undo_log),
                fake_ground(hosts, Terms(), place),
                kind="ssh",
            )
            fleet.use_script(READING, "/project")
            return stack.enter_context(fleet), hosts

        yield one


def test_each_agent_is_told_of_the_script_before_its_first_worker(make: Make) -> None:
    fleet, hosts = make({"worker-0": ["a"], "worker-1": ["b"]})
    for spec in WORKERS:
        assert fleet.start(spec).is_alive
    assert [host.calls for host in hosts] == [["begin_script", "enlist", "restart"]] * 2
    fleet.kill("worker-1")
    assert [host.calls.count("signal") for host in hosts] == [0, 1]


def test_workers_of_a_launcher_are_on_its_host_and_a_new_agent_starts_it_first(make: Make) -> None:
    fleet, (host,) = make({"launcher": ["a"]})
    fleet.start(LAUNCHER)
    places = [(name, *fleet.hosts_of(name)) for name in fleet.nodes]
    assert places == [("launcher", "a"), ("worker-0", "a"), ("worker-1", "a")]
    fleet.pause("worker-1")
    fleet.lost("launcher", "its agent was killed")
    wait_until(lambda: not fleet.poll(0.0) and not fleet.nodes["launcher"].is_alive)
    del host.calls[:]

    def is_back() -> bool:
        try:
            fleet.restart("launcher")
        except FleetError:
            return False
        return True

    wait_until(is_back)
    assert fleet.nodes["launcher"].incarnation == 2
    assert host.calls[:3] == ["begin_script", "enlist", "restart"]


def test_what_workers_have_printed_is_brought_before_the_end(make: Make, tmp_path: Path) -> None:
    fleet, (host,) = make({"worker-0": ["a"]})
    fleet.start(WORKERS[0])
    said, made = b"step 7\n", io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo("nodes/worker-0/1/stdout.log")
        entry.size = len(said)
        archive.addfile(entry, io.BytesIO(said))
    host.record = made.getvalue()
    fleet.bring_records()
    assert (tmp_path / "nodes/worker-0/1/stdout.log").read_bytes() == said


def test_what_is_missing_on_a_host_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    folder, python = str(tmp_path), sys.executable
    for words in (
        ["{python}", "train.py", "--rank", "0"], ["{python}", "-m", "project.train"],
        [python, "-u", f"{folder}/train.py"], ["true", "gone.py"], ["sh", "-c", "cd x && a.sh"],
    ):  # fmt: skip
        assert unstartable(folder, [words]) == "", words
    for where, words, culprit in (
        (f"{folder}/gone", ["true"], f"{folder}/gone"),
        (folder, ["{python}", "gone.py"], f"{folder}/gone.py"),
        (folder, ["torchrun-is-not-here", "train.py"], "torchrun-is-not-here"),
        (folder, ["bin/python", "train.py"], "bin/python"),
    ):
        assert culprit in unstartable(where, [["true"], words])


def test_a_script_has_the_paths_of_its_host_and_nothing_by_which_chaoslab_is_found() -> None:
    words = {"python": "/py", "folder": "/run/script"}
    spec = replace(
        LAUNCHER, command=("{python}", "{folder}/x"), workdir="~/a",
        environment={"CHAOSLAB_FOLDER": "{folder}"},
        launches=(replace(WORKERS[0], keeps="{folder}"),),
    )  # fmt: skip
    here = as_here(spec, words)
    assert here.command == ("/py", "/run/script/x")
    assert here.workdir == str(Path.home() / "a")
    assert here.launches[0].keeps == "/run/script"
    assert here.environment == {
        "CHAOSLAB_FOLDER": "/run/script", "PYTHONPATH": "", "PYTHONSAFEPATH": ""
    }  # fmt: skip
    own = replace(spec, reads=None)
    assert "PYTHONPATH" not in as_here(own, words).environment


def test_files_are_read_beside_a_worker_that_is_started_in_its_folder(tmp_path: Path) -> None:
    project, run = tmp_path / "project", tmp_path / "run"
    project.mkdir()
    run.mkdir(mode=0o700)
    (project / "train.sh").write_text(
        "echo '{\"step\": 7}' > m.jsonl; : > $1/step-7.pt; exec sleep 600\n"
    )
    words = {"folder": str(run / "script")}
    reading = replace(
        READING, saves={"worker-0": "step-*.pt"},
        sources={"worker-0": SourceSettings.of({"json_lines": "m.jsonl"})},
    )  # fmt: skip
    spec = replace(WORKERS[0], command=("sh", "train.sh", "{folder}"), workdir=str(project))
    seen: list[Observation] = []
    with UndoLogFile(run) as undo_log:
        fleet = HostedFleet(run, WallClock(), undo_log=undo_log)
        with fleet:
            begin_script(fleet, words, reading=as_json(reading), workdir=str(project))
            fleet.enlist_from(as_here(spec, words), first=3)
            assert fleet.restart("worker-0").incarnation == 3

            def is_there() -> bool:
                seen.extend(one for one in fleet.attend(0.02) if one.kind is Kind.TRAINER_SAID)
                return len(seen) >= 2

            wait_until(is_there)
    assert {(one.data["what"], one.data["step"], one.data["incarnation"]) for one in seen} == {
        ("progress", 7, 3), ("saved", 7, 3),
    }  # fmt: skip
