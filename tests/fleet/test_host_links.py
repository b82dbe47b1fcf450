"""Links of nodes on hosts: where they run, and that they go with their nodes."""

import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.core.events import Kind
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.node_links import NodeLinks
from chaoslab.fleet.protocols import Networked, able
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.host import Runs
from chaoslab.fleet.remote.links import HostLinks
from chaoslab.fleet.remote.protocol.reach import HostAddress, Reach
from chaoslab.fleet.remote.ssh.connection import SshReach
from chaoslab.links.effects import Direction, Latency, Refuse
from tests.contracts.fleet_kit import Stage, wait_until
from tests.fleet.direct_hosts import DirectReach, ThisPython, home_folder, marked
from tests.fleet.local_stage import Remembered
from tests.fleet.sshd import ssh_hosts
from tests.fleet.test_local import learner
from tests.fleet.test_remote import RUN, agent_of, ground_of, restarted

pytestmark = [pytest.mark.deep, pytest.mark.alone]
DELAY_S = 0.3
DELAYED = Latency(mean_s=DELAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Hosts: a way to each, and its home."""

    reaches: list[Reach]
    homes: list[Path]


@pytest.fixture(params=["direct", "ssh"])
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    """Two hosts."""
    with ExitStack() as stack:
        if request.param == "ssh":
            machines = stack.enter_context(ssh_hosts(2))
            reaches: list[Reach] = [SshReach(one.access) for one in machines]
            yield Places(reaches=reaches, homes=[one.home for one in machines])
            return
        homes = [stack.enter_context(home_folder()) for _ in range(2)]
        direct: list[Reach] = [DirectReach(f"host-{n}", home) for n, home in enumerate(homes)]
        yield Places(reaches=direct, homes=homes)


@contextmanager
def linked_stage(folder: Path, undo_log: Remembered, reaches: list[Reach]) -> Iterator[Stage]:
    """A fleet whose nodes have links, and which notices the loss of a host soon."""
    clock = WallClock()
    links = HostLinks.factory(1)(folder, undo_log=undo_log)
    ground = ground_of(reaches, Terms(lease_s=30.0, lost_s=1.0))
    node_links = NodeLinks(clock=clock, made_by=links)
    with RemoteFleet(
        Place(run_directory=folder, clock=clock, undo_log=undo_log),
        ground,
        kind="ssh",
        node_links=node_links,
    ) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def upstream() -> Iterator["Echo"]:
    with Echo() as upstream:
        yield upstream


def test_a_link_runs_on_the_host_of_its_learner(
    tmp_path: Path, undo_log: Remembered, places: Places, upstream: "Echo"
) -> None:
    with linked_stage(tmp_path, undo_log, places.reaches) as stage:
        fleet = able(stage.fleet, Networked)
        link = fleet.link("learner-1", upstream.address)
        assert said_through(link.address, b"hello\n") == b"hello\n"
        link.shape("injection-0", Direction.DOWN, DELAYED)
        assert takes_s(link.address) >= DELAY_S
        link.clear("injection-0")
        assert link.counters().up_bytes == len(b"hello\nhow long\n")
        (proxy,) = proxies_of(places.homes[1])
        assert not proxies_of(places.homes[0])
    assert not proxy.is_running()
    assert Kind.LINK_LOST not in stage.kinds


@pytest.mark.parametrize("moves", [False, True])
def test_a_link_comes_back_as_it_was_with_its_host_or_on_another(
    tmp_path: Path, undo_log: Remembered, places: Places, upstream: "Echo", *, moves: bool
) -> None:
    old, new = places.reaches
    with linked_stage(tmp_path, undo_log, [old]) as stage:
        assert isinstance(stage.fleet, RemoteFleet)
        stage.fleet.ground.make_ready = ready_as(new)
        link = stage.fleet.link("learner-0", upstream.address)
        stage.fleet.start(learner("learner-0"))
        stage.until(Kind.LEARNER_STEP)
        assert said_through(link.address, b"hello\n") == b"hello\n"
        assert link.counters().opened == 1
        link.shape("injection-0", Direction.DOWN, DELAYED)
        link.shape("injection-1", Direction.BOTH, Refuse())
        agent_of(places.homes[0]).kill()
        stage.until(Kind.NODE_EXITED)
        wait_until(lambda: not proxies_of(places.homes[0]))
        with pytest.raises(FleetError, match=stage.fleet.hosts_of("learner-0")[0]):
            link.shape("injection-2", Direction.DOWN, DELAYED)
        link.clear("injection-1")
        on_link = [n for n, one in enumerate(undo_log.opened) if "proxy" in one]
        assert set(on_link) <= set(undo_log.closed), "the entries of a link that is gone are closed"
        if moves:
            stage.fleet.rehost("learner-0", [HostAddress(address=new.name)])
        assert restarted(stage, "learner-0").incarnation == 2
        assert takes_s(link.address) >= DELAY_S
        counted = link.counters()
        assert (counted.opened, counted.up_bytes) == (2, len(b"hello\nhow long\n"))
        assert len(proxies_of(places.homes[moves])) == 1
        link.clear("injection-0")
        stage.until(Kind.LEARNER_STEP)
    assert Kind.LINK_LOST not in stage.kinds
    assert sorted(undo_log.closed) == [*range(len(undo_log.opened))]


def ready_as(
    reach: Reach,
) -> Callable[[HostAddress], Coroutine[Any, Any, tuple[Reach, Runs]]]:
    """What makes a host ready: this one, as it is."""

    async def make_ready(found: HostAddress) -> tuple[Reach, Runs]:
        assert found.address == reach.name
        return reach, ThisPython()

    return make_ready


class Echo:
    """A server that says again what it hears."""

    def __enter__(self) -> "Echo":
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                stream, _ = self._socket.accept()
                with stream, stream.makefile("rb") as lines:
                    for line in lines:
                        stream.sendall(line)


def takes_s(address: str) -> float:
    """How long a line takes there and back."""
    began_s = time.monotonic()
    assert said_through(address, b"how long\n") == b"how long\n"
    return time.monotonic() - began_s


def said_through(address: str, line: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as stream:
        stream.sendall(line)
        with stream.makefile("rb") as lines:
            return lines.readline()


def proxies_of(home: Path) -> list[psutil.Process]:
    """The proxies that an agent of this host has started."""
    return marked(f"{home}/.chaoslab/runs/{RUN}/links/")
