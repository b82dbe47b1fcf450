"""Hosts that share nothing but the disk: each in network, process and mount namespaces of its own.

    me ── veth ──┐
    host-0 ──────┼── bridge, in a namespace of its own      10.213.7.1 is me, hosts follow from .2
    host-1 ──────┘

All of it is inside this machine and goes with the block. Needs root.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaoslab.fleet.remote.ssh.access import Access
from tests.fleet.direct_hosts import home_folder
from tests.fleet.sshd import SSHD, SshHost, await_banner, make_key, require_sshd, write_config

_NET = "10.213.7"
_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Lan:
    """A network of hosts; `command` makes a command line of ours run in it."""

    hosts: Sequence[SshHost]
    prefix: str

    def command(self, *words: str) -> tuple[str, ...]:
        """As run by a machine of that network."""
        return ("ip", "netns", "exec", f"{self.prefix}-me", *words)


@contextmanager
def lan(number: int) -> Iterator[Lan]:
    """So many hosts with sshd on port 22 of their own addresses."""
    require_sshd()
    if not can_be_apart():
        pytest.skip("namespaces need root, ip and unshare")
    prefix = f"chaoslab{secrets.token_hex(2)}"
    with ExitStack() as stack:
        stack.enter_context(namespace(f"{prefix}-lan"))
        run("ip", "-n", f"{prefix}-lan", "link", "add", "br0", "type", "bridge")
        run("ip", "-n", f"{prefix}-lan", "link", "set", "br0", "up")
        plugged(stack, prefix, "me", 1)
        keys = stack.enter_context(home_folder())
        make_key(keys / "user_key")
        hosts = [stack.enter_context(host(stack, prefix, keys, n)) for n in range(number)]
        yield Lan(hosts=hosts, prefix=prefix)


def can_be_apart() -> bool:
    """Whether hosts can have namespaces of their own here."""
    return os.getuid() == 0 and bool(shutil.which("ip") and shutil.which("unshare"))


@contextmanager
def namespace(name: str) -> Iterator[None]:
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        yield
    finally:
        run("ip", "netns", "delete", name)


def plugged(stack: ExitStack, prefix: str, name: str, number: int) -> str:
    """A namespace on the bridge; its address."""
    own, address = f"{prefix}-{name}", f"{_NET}.{number}"
    stack.enter_context(namespace(own))
    run(
        *("ip", "-n", f"{prefix}-lan", "link", "add", f"port{number}", "type", "veth"),
        *("peer", "name", "eth0", "netns", own),
    )
    run("ip", "-n", f"{prefix}-lan", "link", "set", f"port{number}", "master", "br0", "up")
    run("ip", "-n", own, "address", "add", f"{address}/24", "dev", "eth0")
    run("ip", "-n", own, "link", "set", "eth0", "up")
    return address


@contextmanager
def host(stack: ExitStack, prefix: str, keys: Path, number: int) -> Iterator[SshHost]:
    """One host; its first process is a shell, which takes in orphans."""
    home = stack.enter_context(home_folder())
    address = plugged(stack, prefix, f"host{number}", number + 2)
    config = write_config(home, keys, address, _PORT)
    script = (
        "hostname $0 && mount -t tmpfs none /dev/shm && "
        f"{{ {SSHD} -D -e -f {config} 2>{home}/sshd/log & wait; }}"
    )
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts")
    inside = ("ip", "netns", "exec", f"{prefix}-host{number}")
    server = subprocess.Popen((*inside, *apart, "sh", "-c", script, f"host-{number}"))
    try:
        me = ("ip", "netns", "exec", f"{prefix}-me")
        await_banner(me, address, _PORT, server, home / "sshd/log")
        access = Access(
            host=address, key=str(keys / "user_key"), known_hosts=str(keys / "known_hosts")
        )
        yield SshHost(access=access, home=home, server=server)
    finally:
        server.kill()
        server.wait(10)


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
