"""Whole runs on hosts with a real sshd: an inventory of them, and what is left there."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaoslab.prepare.launch import compilation_cache
from tests.fleet.sshd import SshHost, ssh_hosts
from tests.whole_runs import left_over

PLAN = """
version: 1
name: two_hosts
training: {learners: 2, model: nano, stop: {rounds: 160}}
limits: {min_alive: 1, timeout: 5m}
faults:
  - id: thin
    fault: network.region_profile
    profile: transatlantic
    target: {region: us}
    at: {round: 30}
    for: 3s
  - {id: dies, fault: process.kill, target: {region: eu}, at: {round: 90}, for: 3s}
expect:
  - {check: continuity, max_gap: 20s}
  - {check: rejoin, within: 60s, contributions: 3}
  - {check: cleanup}
"""
"""A link and a process on hosts, found by the labels of the inventory."""


@contextmanager
def fleet_of_hosts(folder: Path, *counts: int) -> Iterator[tuple[Path, list[SshHost]]]:
    """An inventory with a host for the syncer and so many for each learner, and the hosts."""
    with ssh_hosts(1 + sum(counts)) as hosts:
        yield write_inventory(folder, hosts, *counts), hosts


def write_inventory(folder: Path, hosts: Sequence[SshHost], *counts: int) -> Path:
    """A file that says it. What was compiled here before, they need not compile again."""
    compilation_cache().mkdir(parents=True, exist_ok=True)
    for host in hosts:
        (host.home / ".chaoslab").mkdir(mode=0o700)
        (host.home / ".chaoslab/cache").symlink_to(compilation_cache())
    file = folder / "fleet.yaml"
    file.write_text(inventory_of(hosts, *counts))
    return file


def inventory_of(hosts: Sequence[SshHost], *counts: int) -> str:
    """The first host is the syncer's; the first half of the learners is in another region, with
    another generation of chips, than the second.
    """
    access = hosts[0].access
    lines = [
        f"ssh: {{port: {access.port}, key: {access.key}, known_hosts: {access.known_hosts}}}",
        f"python: {sys.executable}",
        f"syncer: {{host: {access.host}}}",
        "learners:",
    ]
    addresses = iter(host.access.host for host in hosts[1:])
    for number, count in enumerate(counts):
        where = ("eu", "v5e") if number < len(counts) / 2 else ("us", "v4")
        own = ", ".join(next(addresses) for _ in range(count))
        lines.append(
            f"  learner-{number}: {{hosts: [{own}], region: {where[0]}, generation: {where[1]}}}"
        )
    return "\n".join([*lines, ""])


def left_on(hosts: Sequence[SshHost]) -> list[str]:
    """Folders of runs, temporary files and processes of nodes that are still there."""
    places = (".chaoslab/runs/*", ".chaoslab/code/tmp*", "tmp/*")
    files = [str(one) for host in hosts for place in places for one in host.home.glob(place)]
    return files + [str(one) for host in hosts for one in left_over(host.home)]
