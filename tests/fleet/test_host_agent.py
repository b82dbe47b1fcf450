"""Parts of a host agent and of its client: spool, remembered answers, messages, socket."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaoslab.core.errors import AbilityError, ChaoslabError, FleetError, HarnessBug
from chaoslab.core.events import Kind, Observation
from chaoslab.core.process_identity import identify
from chaoslab.fleet.attached.found import Found, of_script
from chaoslab.fleet.base import Node, NodeSpec, Role
from chaoslab.fleet.remote.client import AgentClient
from chaoslab.fleet.remote.host_agent import life
from chaoslab.fleet.remote.host_agent.clients import Answers
from chaoslab.fleet.remote.host_agent.folder import HostFolder, prune
from chaoslab.fleet.remote.host_agent.life import listening
from chaoslab.fleet.remote.host_agent.spool import SPOOL, Spool
from chaoslab.fleet.remote.protocol import messages
from chaoslab.fleet.remote.protocol.reach import Streams
from chaoslab.fleet.settings import Reading
from chaoslab.fleet.stressors import Mechanism, MemoryLimit, Neighbours, OccupiedMemory, Slowness
from chaoslab.trainers.reading import Patterns
from chaoslab.trainers.sources import SourceSettings
from chaoslab.undo.log import UndoLogFile, open_undos
from tests.fleet.direct_hosts import home_folder
from tests.payload_reading import observed


def seen(step: int) -> Observation:
    return observed(Kind.LEARNER_STEP, {"step": step}, source="a", node_s=1.5)


def numbers(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["seen"]["number"] for line in lines]


def test_a_spool_gives_what_follows_until_it_is_acknowledged(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([seen(1), seen(2)], at_s=1.0)
        spool.append([seen(3)], at_s=2.0)
        assert (spool.last, numbers(list(spool.after(0, 10)))) == (3, [1, 2, 3])
        assert numbers(list(spool.after(1, 1))) == [2]
        spool.acknowledge(2)
        assert numbers(list(spool.after(2, 10))) == [3]
        for never_seen in (1, 7):
            with pytest.raises(FleetError):
                list(spool.after(never_seen, 10))
        spool.acknowledge(99)
        assert (spool.last, list(spool.after(3, 10))) == (3, [])
    assert len((tmp_path / SPOOL).read_text().splitlines()) == 3


def test_a_spool_whose_disk_is_full_says_so_once_and_tells_everything(tmp_path: Path) -> None:
    (tmp_path / SPOOL).symlink_to("/dev/full")
    with Spool(tmp_path) as spool:
        spool.append([], at_s=0.5)
        assert spool.last == 0, "nothing was to be written"
        for step in (1, 2):
            spool.append([seen(step)], at_s=float(step))
        told = [json.loads(line)["seen"] for line in spool.after(0, 10)]
    assert [one["kind"] for one in told] == ["learner.step", "disk.blocked", "learner.step"]
    assert [one["number"] for one in told] == [1, 2, 3]
    assert told[1]["data"]["file"] == SPOOL


def test_a_call_that_comes_again_is_answered_from_memory() -> None:
    calls = count(1)
    answers = Answers(lambda _: {"value": next(calls)})
    for identity, value in (("x-1", 1), ("x-2", 2), ("x-1", 1)):
        assert answers.to({"id": identity, "do": "kill"}) == {"value": value}
    assert next(calls) == 3
    with pytest.raises(messages.Garbled):
        answers.to({"do": "kill"})


def test_nodes_and_specifications_travel_as_they_are() -> None:
    spec = NodeSpec(
        name="learner-0",
        role=Role.LEARNER,
        command=("python", "-m", "x"),
        environment={"NPROC": "1"},
        secrets={"TOKEN": "s"},
        private_files={"key.pem": b"\x00\xff"},
        labels={"region": "eu"},
        hears=True,
        keeps="checkpoints",
    )
    node = Node(name="a", role=Role.SYNCER, labels={}, incarnation=3, is_alive=True)
    assert messages.read_as(NodeSpec, json.loads(json.dumps(messages.as_json(spec)))) == spec
    assert messages.read_as(Node, json.loads(json.dumps(messages.as_json(node)))) == node


def test_what_is_read_of_a_training_travels_as_it_is() -> None:
    patterns = Patterns.of(progress=r"step (?P<step>\d+)", saved="saved")
    source = SourceSettings.of({"csv": "a.csv", "loss": "train"}, patterns)
    reading = Reading(
        patterns=patterns, is_elsewhere=True, restarts="itself", sources={"worker-0": source}
    )
    found = replace(of_script("worker-0", "process 7", "7"), rank=3)
    assert messages.read_as(Reading, json.loads(json.dumps(messages.as_json(reading)))) == reading
    assert messages.read_as(Found, json.loads(json.dumps(messages.as_json(found)))) == found
    for broken in ("(", 7):
        shown = {**messages.as_json(reading), "patterns": {"progress": broken}}
        with pytest.raises(messages.Garbled):
            messages.read_as(Reading, shown)


@pytest.mark.parametrize(
    "stressor",
    [
        Slowness(factor=2.5, mechanism=Mechanism.HOOK, for_s=3.0),
        Neighbours(count=2),
        OccupiedMemory(size_bytes=1 << 20),
        MemoryLimit(limit_bytes=1 << 30),
    ],
)
def test_stressors_travel_as_they_are(
    stressor: Slowness | Neighbours | OccupiedMemory | MemoryLimit,
) -> None:
    assert (
        messages.to_stressor(json.loads(json.dumps(messages.from_stressor(stressor)))) == stressor
    )


@pytest.mark.parametrize("line", [b"[]", b"{", b"\xff", b'{"a":"\\ud800"}', b"1"])
def test_lines_that_are_no_messages_are_refused(line: bytes) -> None:
    with pytest.raises(messages.Garbled):
        messages.read_line(line)


@pytest.mark.parametrize("shown", [{}, {"kind": "x"}, {"source": "a", "kind": "nope", "data": {}}])
def test_what_is_no_observation_is_refused(shown: object) -> None:
    with pytest.raises(messages.Garbled):
        messages.to_observation(shown)


def test_errors_arrive_as_the_kind_that_a_verb_promises() -> None:
    def sent(error: Any) -> Exception:
        return messages.to_error(json.loads(json.dumps(messages.from_error(error))), "h")

    assert sent(KeyError("nobody")).args == ("nobody",)
    assert isinstance(sent(FleetError("x")), FleetError)
    assert isinstance(sent(messages.Garbled("x")), FleetError)
    assert isinstance(sent(AbilityError("x")), AbilityError)
    assert isinstance(messages.to_error({"kind": "OSError", "message": "x"}, "h"), HarnessBug)


# ---------------------------------------------------------------- what is no message


class Stream:
    """A connection on which these lines come, and then nothing."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = [*lines]

    async def readline(self) -> bytes:
        while not self._lines:
            await asyncio.Event().wait()
        return self._lines.pop(0)

    def write(self, data: bytes, /) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""


GREETING = b'{"hello": {"session": "s", "last": 0, "undone": []}}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"rubbish\n",
        b'{"what": {}}\n',
        b'{"seen": {"number": 1, "source": "a"}}\n',
        b'{"seen": {"number": 2, "source": "a", "kind": "learner.step", "data": {}}}\n',
        b'{"refused": "cannot go on"}\n',
    ],
)
def test_an_agent_that_says_what_nobody_understands_is_lost(line: bytes) -> None:
    """It would say that again on the next connection, for ever."""

    async def connect() -> Streams:
        stream = Stream(GREETING, line)
        return stream, stream

    async def listen() -> ChaoslabError:
        lost: asyncio.Future[ChaoslabError] = asyncio.get_running_loop().create_future()
        client = AgentClient(
            host="host-0",
            connect=connect,
            arrived=lambda *_: None,
            back=lambda _: None,
            lost=lost.set_result,
            lease_s=30.0,
            lost_s=30.0,
        )
        await client.open()
        try:
            return await asyncio.wait_for(lost, 60.0)
        finally:
            await client.close()

    assert "host-0" in str(asyncio.run(listen()))


# ---------------------------------------------------------------- its socket


def test_an_agent_listens_in_the_folder_of_its_run(home: Path) -> None:
    (home / "agent.sock").touch()  # as an agent leaves it that was killed
    with UndoLogFile(home) as undo_log, listening(home, undo_log) as (_, path):
        assert path == home / "agent.sock"
        assert path.stat().st_mode & 0o777 == 0o600
        reach(path)
    assert not path.exists()


def test_below_a_long_path_it_listens_in_a_private_folder_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir(mode=0o700)
    with UndoLogFile(folder) as undo_log:
        with listening(folder, undo_log) as (_, path):
            reach(path)
            assert path.parent.stat().st_mode & 0o777 == 0o700
            (entry,) = open_undos(folder)
            assert entry.facts["folder"] == str(path.parent)
        assert not path.parent.exists()
        assert not list(open_undos(folder))


def reach(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


# ---------------------------------------------------------------- its folder


@pytest.mark.parametrize("run", ["", "..", "0123456789/x", "0123456789abc", "ABCDEF0123"])
def test_a_folder_of_no_run_is_refused(run: str) -> None:
    with pytest.raises(FleetError):
        HostFolder(run=run)


@pytest.fixture
def home() -> Iterator[Path]:
    with home_folder() as home:
        yield home.resolve()


def test_a_folder_of_another_machine_in_the_same_home_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster, where all hosts have one home: each would undo what another has done."""
    monkeypatch.setenv("HOME", str(home))
    folder = HostFolder(run="0123456789")
    folder.make()
    (folder.path / "machine").write_text("another")
    with UndoLogFile(folder.path) as log:
        log.open("end_process", pid=2, node="x")
    with pytest.raises(FleetError):
        life.start(folder, lease_s=30.0)
    assert life.halt(folder) == {"had_agent": False, "actions": []}
    assert not folder.remove()
    assert len(open_undos(folder.path)) == 1, "the entries of the other machine stay open"


def test_a_process_that_is_not_the_agent_is_not_ended_for_its_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    for limit in ("_END_S", "_KILL_S"):
        monkeypatch.setattr(life, limit, 0.0)
    folder = HostFolder(run="0123456789")
    folder.make()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            who = identify(stranger.pid)
            assert who is not None
            folder.write_agent(who, folder.path / "agent.sock")
            with pytest.raises(FleetError, match=str(stranger.pid)):
                life.halt(folder)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_what_nobody_needs_any_more_is_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    now_s, day_s = 1e9, 86400.0

    def make(name: str, age_days: float) -> Path:
        path = home / ".chaoslab" / name
        path.mkdir(parents=True, mode=0o700)
        os.utime(path, (now_s - age_days * day_s,) * 2)
        return path

    ended = make("runs/0000000001", 8)
    old = make("code/" + "a" * 64, 31)
    kept = [make("runs/0000000002", 6), make("code/" + "b" * 64, 29), make("runs/notes", 99)]
    unhealed = make("runs/0000000003", 8)
    with UndoLogFile(unhealed) as log:
        log.open("end_process", pid=2, node="x")
    os.utime(unhealed, (now_s - 8 * day_s,) * 2)
    assert prune(now_s) == (ended, old)
    assert not any(path.exists() for path in (ended, old))
    assert all(path.exists() for path in (*kept, unhealed))
