"""Hosts with a real sshd: each on an address of its own of this machine, with a home of its own."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from chaoslab.fleet.remote.ssh.access import Access
from tests.fleet.direct_hosts import home_folder

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH')}:/usr/sbin") or ""
_CONFIG = """
ListenAddress {address}:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME={home} TMPDIR={home}/tmp
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """A host that runs sshd."""

    access: Access
    home: Path
    server: "subprocess.Popen[bytes]"


@contextmanager
def ssh_hosts(number: int) -> Iterator[list[SshHost]]:
    """So many hosts, with the addresses 127.0.0.2, 127.0.0.3 …, and the key that opens them."""
    require_sshd()
    with ExitStack() as stack:
        keys = stack.enter_context(home_folder())
        port = free_port()
        make_key(keys / "user_key")
        hosts = []
        for index in range(number):
            home = stack.enter_context(home_folder())
            hosts.append(stack.enter_context(ssh_host(keys, home, f"127.0.0.{index + 2}", port)))
        yield hosts


def require_sshd() -> None:
    """Skip the test where there is no sshd, unless CHAOSLAB_REQUIRE has `ssh`."""
    if not SSHD:
        assert "ssh" not in os.environ.get("CHAOSLAB_REQUIRE", "").split(","), "no sshd here"
        pytest.skip("there is no sshd here: install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)


@contextmanager
def ssh_host(keys: Path, home: Path, address: str, port: int) -> Iterator[SshHost]:
    """One host; its key is added to the known ones."""
    config = write_config(home, keys, address, port)
    with (home / "sshd/log").open("wb") as log:
        server = subprocess.Popen((SSHD, "-D", "-e", "-f", str(config)), stderr=log)
    try:
        await_banner((), address, port, server, home / "sshd/log")
        access = Access(
            host=address,
            port=port,
            key=str(keys / "user_key"),
            known_hosts=str(keys / "known_hosts"),
        )
        yield SshHost(access=access, home=home, server=server)
    finally:
        server.terminate()
        server.wait(10)


def switch_off(host: SshHost) -> None:
    """As a power cut does: its sshd and all that runs for it are gone at once."""
    for session in psutil.Process(host.server.pid).children(recursive=True):
        with suppress(psutil.Error):
            session.kill()
    host.server.kill()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(host.home):
                process.kill()


@contextmanager
def switched_on(host: SshHost) -> Iterator[Callable[[], None]]:
    """What switches a host on again, which was switched off: its sshd, until the end. Once."""
    with ExitStack() as stack:
        servers: list[subprocess.Popen[bytes]] = []

        def on() -> None:
            if not servers:
                log = stack.enter_context((host.home / "sshd/log").open("ab"))
                command = (SSHD, "-D", "-e", "-f", str(host.home / "sshd/config"))
                servers.append(subprocess.Popen(command, stderr=log))

        try:
            yield on
        finally:
            for server in servers:
                server.terminate()
                server.wait(10)


def write_config(home: Path, keys: Path, address: str, port: int) -> Path:
    """What sshd needs, below a home; the key of the host is added to the known ones."""
    folder = home / "sshd"
    folder.mkdir()
    (home / "tmp").mkdir()
    make_key(folder / "host_key")
    shutil.copy(keys / "user_key.pub", folder / "authorized_keys")
    known = (folder / "host_key.pub").read_text()
    with (keys / "known_hosts").open("a") as file:
        file.write(f"{address if port == 22 else f'[{address}]:{port}'} {known}")
    config = folder / "config"
    config.write_text(_CONFIG.format(address=address, port=port, folder=folder, home=home))
    return config


def make_key(path: Path) -> None:
    """A pair of keys without a passphrase."""
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)), check=True)


def free_port() -> int:
    """A port that is free on all loopback addresses now."""
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


def await_banner(
    prefix: Sequence[str],
    address: str,
    port: int,
    server: "subprocess.Popen[bytes]",
    log: Path,
) -> None:
    """Until sshd answers to whoever dials by `prefix`."""
    deadline_s = time.monotonic() + 20.0
    dial = f"import socket; socket.create_connection(({address!r}, {port}), 1).close()"
    while subprocess.run(
        (*prefix, sys.executable, "-S", "-c", dial), capture_output=True, check=False
    ).returncode:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.02)
