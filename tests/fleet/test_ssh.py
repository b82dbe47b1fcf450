"""Hosts reached by real ssh: the contract, what is refused, and connections that break."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from chaoslab.core.clock import WallClock
from chaoslab.core.errors import FleetError
from chaoslab.fleet.base import NodeSpec
from chaoslab.fleet.incarnation_files import Place
from chaoslab.fleet.remote.contact import Terms
from chaoslab.fleet.remote.fleet import RemoteFleet
from chaoslab.fleet.remote.protocol.messages import LINE_BYTES_MOST
from chaoslab.fleet.remote.protocol.reach import Ran
from chaoslab.fleet.remote.ssh.access import Access
from chaoslab.fleet.remote.ssh.connection import SshReach
from chaoslab.fleet.run_name import run_name
from chaoslab.undo.actions import leftovers, undo
from chaoslab.undo.harness import harness_of
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import Healed
from tests import hostile
from tests.contracts.fleet_kit import LivingFleetKit, Stage, wait_until
from tests.fleet.direct_hosts import marked
from tests.fleet.local_stage import Remembered
from tests.fleet.sshd import SshHost, free_port, make_key, ssh_hosts
from tests.fleet.test_local import learner
from tests.fleet.test_remote import ground_of, live_through_cuts

pytestmark = [pytest.mark.deep]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def machines() -> Iterator[list[SshHost]]:
    with ssh_hosts(2) as machines:
        yield machines


@pytest.fixture
def hosts(machines: list[SshHost]) -> list[SshHost]:
    return machines


@contextmanager
def ssh_stage(
    folder: Path, undo_log: Remembered, hosts: list[SshHost], terms: Terms | None = None
) -> Iterator[Stage]:
    clock = WallClock()
    ground = ground_of([SshReach(host.access) for host in hosts], terms)
    with RemoteFleet(
        Place(run_directory=folder, clock=clock, undo_log=undo_log), ground, kind="ssh"
    ) as fleet:
        yield Stage(fleet=fleet, clock=clock)


@pytest.fixture
def stage(tmp_path: Path, undo_log: Remembered, machines: list[SshHost]) -> Iterator[Stage]:
    """Of `machines`: the kit has tests with a number of `hosts`."""
    with ssh_stage(tmp_path, undo_log, machines[:1]) as stage:
        yield stage


@pytest.fixture
def spec() -> NodeSpec:
    return learner("learner-0")


@pytest.mark.gate
class TestSshFleet(LivingFleetKit):
    """The kit."""


# ---------------------------------------------------------------- what ssh must not do


@pytest.mark.gate
def test_a_host_with_another_key_than_the_known_one_is_refused(
    hosts: list[SshHost], tmp_path: Path
) -> None:
    one, other = hosts
    known = (other.home / "sshd/host_key.pub").read_text()
    (tmp_path / "known").write_text(f"[{one.access.host}]:{one.access.port} {known}")
    with pytest.raises(FleetError, match="known"):
        ran(replace(one.access, known_hosts=str(tmp_path / "known")), "true")


def test_keys_that_a_provider_tells_of_a_host_are_the_only_ones_that_count(
    hosts: list[SshHost],
) -> None:
    own, other = ((one.home / "sshd/host_key.pub").read_text().strip() for one in hosts)
    assert ran(replace(hosts[0].access, host_keys=(other, own)), "true").code == 0
    with pytest.raises(FleetError, match="key"):
        ran(replace(hosts[0].access, host_keys=(other,)), "true")


def test_a_user_whose_key_is_not_let_in_is_told(hosts: list[SshHost], tmp_path: Path) -> None:
    make_key(tmp_path / "other_key")
    with pytest.raises(FleetError, match="user"):
        ran(replace(hosts[0].access, key=str(tmp_path / "other_key")), "true")


def test_a_key_with_a_passphrase_is_told_as_such(hosts: list[SshHost], tmp_path: Path) -> None:
    key = tmp_path / "locked"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "word", "-f", str(key)), check=True)
    with pytest.raises(FleetError, match="ssh-add"):
        ran(replace(hosts[0].access, key=str(key)), "true")


@pytest.mark.gate
def test_no_word_of_a_command_is_read_by_a_shell(hosts: list[SshHost], tmp_path: Path) -> None:
    words = hostile.words(tmp_path / "canary")
    found = ran(hosts[0].access, "printf", "%s\n", *words).stdout.decode()
    assert found == "".join(f"{word}\n" for word in words)
    assert hostile.is_untouched(tmp_path / "canary")


def test_a_host_that_does_not_answer_is_told_in_time(hosts: list[SshHost]) -> None:
    with pytest.raises(FleetError, match=hosts[0].access.host):
        ran(replace(hosts[0].access, port=free_port()), "true", try_s=0.5)


def test_a_command_that_takes_too_long_is_given_up(hosts: list[SshHost]) -> None:
    with pytest.raises(FleetError, match=hosts[0].access.host):
        ran(hosts[0].access, "sleep", "60", within_s=0.2)


@pytest.mark.gate
def test_a_host_behind_a_jump_host_is_reached(hosts: list[SshHost]) -> None:
    jump, far = hosts
    access = replace(far.access, jump=f"{jump.access.host}:{jump.access.port}")
    said = ran(access, "sh", "-c", "echo $HOME $SSH_CONNECTION").stdout.decode().split()
    assert said[0] == str(far.home)
    assert said[3] == far.access.host


def test_what_keeps_a_jump_host_from_being_passed_is_told_of_that_host(
    hosts: list[SshHost], tmp_path: Path
) -> None:
    jump, far = hosts
    (tmp_path / "known").write_text(
        f"[{far.access.host}]:{far.access.port} {(far.home / 'sshd/host_key.pub').read_text()}"
    )
    place = f"{jump.access.host}:{jump.access.port}"
    for access in (
        replace(far.access, jump=place, known_hosts=str(tmp_path / "known")),
        replace(far.access, jump=f"nobody-here@{place}"),
        replace(far.access, jump=f"{jump.access.host}:{free_port()}"),
    ):
        with pytest.raises(FleetError, match=rf"jump host {jump.access.host}"):
            ran(access, "true", try_s=0.5)


def ran(access: Access, *command: str, try_s: float = 5.0, within_s: float = 20.0) -> Ran:
    async def run() -> Ran:
        reach = SshReach(access, try_s=try_s)
        try:
            return await reach.run(command, within_s=within_s)
        finally:
            await reach.close()

    return asyncio.run(run())


# ---------------------------------------------------------------- broken connections


def test_cuts_of_ssh_lose_nothing_and_repeat_nothing(
    tmp_path: Path, undo_log: Remembered, hosts: list[SshHost]
) -> None:
    with ssh_stage(tmp_path, undo_log, hosts) as stage:
        live_through_cuts(stage, tmp_path, 30)
    assert not any(list((host.home / ".chaoslab/runs").iterdir()) for host in hosts)


def test_a_line_of_an_agent_comes_whole_or_is_refused(hosts: list[SshHost], tmp_path: Path) -> None:
    async def said(size: int) -> bytes:
        async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x" * size + b"\n")
            with suppress(ConnectionError):  # one that is refused is not read to its end
                await writer.drain()
            writer.close()

        socket = str(hosts[0].home / f"{size}.sock")
        async with await asyncio.start_unix_server(say, socket):
            reach = SshReach(hosts[0].access)
            try:
                reader, _ = await reach.connect(socket)
                return await reader.readline()
            finally:
                await reach.close()

    assert asyncio.run(said(LINE_BYTES_MOST - 1)) == b"x" * (LINE_BYTES_MOST - 1) + b"\n"
    with pytest.raises(ValueError, match=str(LINE_BYTES_MOST)):
        asyncio.run(said(2 * LINE_BYTES_MOST))


def test_a_forwarded_port_outlives_the_connection(hosts: list[SshHost]) -> None:
    async def talk() -> list[bytes]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reach = SshReach(hosts[0].access)
        port = await reach.forward(server.sockets[0].getsockname()[1])
        said = []
        for line in (b"one\n", b"two\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line)
            said.append(await reader.readline())
            writer.close()
            reach.cut()
        await reach.close()
        server.close()
        return said

    assert asyncio.run(talk()) == [b"one\n", b"two\n"]


# ---------------------------------------------------------------- the death of a harness


@pytest.mark.parametrize("how", ["lease", pytest.param("janitor", marks=pytest.mark.gate)])
def test_hosts_clean_themselves_when_the_harness_is_killed(
    tmp_path: Path, hosts: list[SshHost], how: str
) -> None:
    """By the lease alone, and sooner by the janitor, which goes to the hosts."""
    lease_s = 2.0 if how == "lease" else 60.0
    flags = ["--janitor"] if how == "janitor" else []
    words = [str(tmp_path), str(lease_s), *(json.dumps(asdict(one.access)) for one in hosts)]
    harness = subprocess.Popen(
        [sys.executable, "-m", "tests.fleet.ssh_harness", *words, *flags],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert harness.stdout is not None
    with harness.stdout:
        assert harness.stdout.readline() == "ready\n"
    family = marked(*(f"{host.home}/" for host in hosts))
    assert len(family) == 4, "a node and its child on each host"
    harness.kill()
    harness.wait()
    wait_until(lambda: not any(one.is_running() for one in family))
    run = run_name(tmp_path)
    folders = [host.home / ".chaoslab/runs" / run for host in hosts]
    if how == "janitor":
        wait_until(lambda: not (any(map(Path.exists, folders)) or open_undos(tmp_path)))
    else:
        wait_until(lambda: all(harness_of(folder) is None for folder in folders))
        wait_until(lambda: not any(open_undos(folder) for folder in folders))
        for entry, host, folder in zip(open_undos(tmp_path), hosts, folders, strict=True):
            told = f"the folder {folder} of run {run}"
            assert leftovers(entry) == (f"{host.access.host}: {told}",)
            assert undo(entry) == Healed(actions=(f"{host.access.host}: {told}, removed",))
            assert (leftovers(entry), undo(entry)) == ((), Healed()), "nothing is removed twice"
        assert not any(folder.exists() for folder in folders)
