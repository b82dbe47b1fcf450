"""An engine that only ssh reaches, with a stand-in for ssh that forwards on this machine."""

import shlex
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.events import Kind
from tests import fake_ssh
from tests.contracts.fleet_kit import Stage, wait_until
from tests.engine import Engine, engine_or_skip, learner, small_fleet
from tests.fleet.local_stage import Remembered

from chaoslab.fleet.docker.engine.tunnel import Tunnel  # isort: skip  # the engine may skip all this


class Echo(socketserver.BaseRequestHandler):
    """Answers in capitals."""

    def handle(self) -> None:
        """Once."""
        self.request.sendall(self.request.recv(100).upper())


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, first on PATH; its folders go to one of our own. They must be short."""
    program = tmp_path / "ssh"
    words = shlex.join((sys.executable, "-S", fake_ssh.__file__))
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return program


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where tunnels make theirs; a socket's path has to be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield Path(place)


@pytest.fixture
def engine_socket(folders: Path) -> Iterator[Path]:
    place = folders / "far.sock"
    with socketserver.ThreadingUnixStreamServer(str(place), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield place
        server.shutdown()


def said_by(address: str) -> bytes:
    """What is answered at an address of this machine."""
    if address.startswith("unix://"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.removeprefix("unix://"))
    else:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)))
    with connection:
        connection.sendall(b"hello")
        return connection.recv(100)


def nothing_is_left(folders: Path) -> bool:
    return not list(folders.glob("chaoslab-ssh-*"))


def test_the_socket_over_there_is_asked_here_until_the_tunnel_is_closed(
    engine_socket: Path, folders: Path
) -> None:
    before = {*psutil.Process().children()}
    tunnel = Tunnel.to_engine(f"ssh://me@there:22{engine_socket}")
    with closing(tunnel):
        assert said_by(tunnel.address) == b"HELLO"
    tunnel.close()
    assert nothing_is_left(folders)
    assert {*psutil.Process().children()} <= before


def test_a_port_of_the_loopback_over_there_is_brought_here(folders: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with closing(Tunnel.to_port("ssh://there", server.server_address[1])) as tunnel:
            assert tunnel.address.startswith("127.0.0.1:")
            assert said_by(tunnel.address) == b"HELLO"
        server.shutdown()
    assert nothing_is_left(folders)


def test_a_port_that_somebody_took_meanwhile_is_not_the_last_one(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SSH_SAYS", "bind [127.0.0.1]:1: Address already in use")
    with pytest.raises(FleetError, match="in use"):
        Tunnel.to_port("ssh://there", 1)
    monkeypatch.setenv("FAKE_SSH_TRIPS_AT", str(folders / "tripped"))
    Tunnel.to_port("ssh://there", 1).close()


@pytest.mark.deep
def test_a_harness_that_is_killed_leaves_no_ssh_and_no_folder(
    engine_socket: Path, folders: Path
) -> None:
    code = (
        "import sys, tempfile, time\n"
        "from chaoslab.fleet.docker.engine.tunnel import Tunnel\n"
        f"tempfile.tempdir = {str(folders)!r}\n"
        f"tunnel = Tunnel.to_engine('ssh://there{engine_socket}')\n"
        "print('in', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen((sys.executable, "-c", code), stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"in\n"
        below = psutil.Process(harness.pid).children(recursive=True)
        assert below
        assert not nothing_is_left(folders)
        harness.kill()
    wait_until(lambda: nothing_is_left(folders) and not any(one.is_running() for one in below))


def test_what_ssh_says_is_why_no_engine_answers(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SSH_SAYS", "me@there: Permission denied (publickey).")
    with pytest.raises(AbilityError, match=r"Permission denied.*ssh ssh://me@there "):
        Engine.connect("ssh://me@there")
    assert nothing_is_left(folders)


@pytest.mark.parametrize("url", ["ssh://", "ssh://me:word@there", "ssh://there:port"])
def test_an_address_that_cannot_be_meant_is_refused_in_words(url: str, folders: Path) -> None:
    with pytest.raises(AbilityError, match=url):
        Engine.connect(url)
    assert nothing_is_left(folders)


@pytest.mark.deep
@pytest.mark.docker
def test_containers_behind_ssh_are_started_heard_told_and_killed(
    tmp_path: Path, folders: Path
) -> None:
    with closing(engine_or_skip()) as near:
        if not near.is_local:
            pytest.skip(f"the engine at {near.url} is on another machine already")
        path = near.url.removeprefix("unix://")
    undo_log, clock = Remembered(), WallClock()
    far = Engine.connect(f"ssh://there{path}")
    assert not far.is_local
    with small_fleet(tmp_path, clock, far, undo_log) as fleet:
        stage = Stage(fleet=fleet, clock=clock)
        fleet.start(learner("learner-0"))
        stage.until(Kind.LEARNER_STEP)
        fleet.kill("learner-0")
        assert stage.until(Kind.NODE_EXITED).data["signal"] == "SIGKILL"
        if not any(one.kind is Kind.ENGINE_REPORTED for one in stage.seen):
            stage.until(Kind.ENGINE_REPORTED)
    assert nothing_is_left(folders)
    assert len(undo_log.closed) == len(undo_log.opened) == 1
