"""What a run may leave on a machine, looked at before and after: the difference must be empty.

    look(mark, root) ─► Machine: processes, listeners, proxies, cgroups, mounts, rules, files
    before, after    ─► residue(before, after): one line for each thing that was not there before

Other people's runs may come and go meanwhile, so what counts as ours is told apart by what cannot
be shaken off: a word in the environment that every process inherits, the run's own folder, and the
names in its book of obligations.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from chaoslab.core.events import Kind
from chaoslab.links.proxied.http_api import Endpoint, Unreachable, an_object, call
from chaoslab.record.journal_file import JOURNAL
from chaoslab.undo.log import UNDO_LOG

MARK = "CHAOSLAB_TEST_MARK"
"""Set for the harness under test; whatever comes of it inherits it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is there now and could be ours."""

    processes: frozenset[str]
    sessions: frozenset[str]
    proxies: frozenset[str]
    """On the Toxiproxy server of somebody else that the run used."""
    cgroups: frozenset[str]
    mounts: frozenset[str]
    rules: frozenset[str]
    """Of the kernel for packets, and qdiscs."""
    files: frozenset[str]
    """Temporary ones: in the harness's own folder for them, or half-written in its records."""


def look(mark: str, root: Path, *, toxiproxy: str | None = None) -> Machine:
    """The machine now, seen for the harness whose environment holds `mark` and that writes below
    `root`, with its temporary files in root/tmp.
    """
    entries = list(_entries(root))
    return Machine(
        processes=frozenset(_processes(mark, root)),
        sessions=frozenset(_sessions(mark, root)),
        proxies=frozenset(_proxies(toxiproxy)),
        cgroups=frozenset(_cgroups(entries)),
        mounts=frozenset(_mounts(root)),
        rules=frozenset(_rules(entries)),
        files=frozenset(_files(root)),
    )


def residue(before: Machine, after: Machine) -> list[str]:
    """What came and did not go."""
    return [
        f"{field.name}: {one}"
        for field in fields(Machine)
        for one in sorted(getattr(after, field.name) - getattr(before, field.name))
    ]


# ---------------------------------------------------------------- each kind


def _processes(mark: str, root: Path) -> Iterator[str]:
    """By the environment; and by the command line, in case one was started without it."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            is_ours = process.environ().get(MARK) == mark or any(str(root) in w for w in words)
            is_dead = process.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            continue
        if is_ours and not is_dead and process.pid != os.getpid() and "pytest" not in words:
            yield f"{process.pid} {' '.join(words)[:160]}"


def _sessions(mark: str, root: Path) -> Iterator[str]:
    """On every port that the journals name, unless a stranger's process has it by now."""
    ports = set(_ports(root))
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, mark) != mark:
                continue
            for one in process.net_connections("tcp"):
                if one.status == psutil.CONN_LISTEN and one.laddr.port in ports:
                    yield f"{one.laddr.ip}:{one.laddr.port} held by {process.pid}"
        except psutil.Error:
            continue


def _ports(root: Path) -> Iterator[int]:
    for journal in root.rglob(JOURNAL):
        for line in journal.read_text(errors="replace").splitlines():
            if Kind.LINK_STARTED in line or Kind.SYNCER_READY in line:
                yield from map(int, re.findall(r'"(?:address|upstream)":\s*"[\d.]+:(\d+)"', line))


def _proxies(api: str | None) -> Iterator[str]:
    if api is None:
        return
    try:
        found = an_object(call(Endpoint(address=api), "GET", "/proxies"))
    except Unreachable:
        return
    yield from (f"{name} at {api}" for name in found if name.startswith("chaoslab-"))


def _cgroups(entries: list[dict[str, object]]) -> Iterator[str]:
    paths = (Path(str(facts["path"])) for facts in entries if facts.get("do") == "remove_cgroup")
    yield from (str(path) for path in paths if path.exists())


def _mounts(root: Path) -> Iterator[str]:
    table = Path("/proc/self/mounts")
    lines = table.read_text().splitlines() if table.exists() else []
    yield from (where for where in (line.split()[1] for line in lines) if str(root) in where)


def _rules(entries: list[dict[str, object]]) -> Iterator[str]:
    """Those with a comment of ours that a book names; and every netem qdisc."""
    comments = {str(facts["comment"]) for facts in entries if "comment" in facts}
    listing = ""
    if comments:
        for command in (("iptables", "-S"), ("nft", "list", "ruleset")):
            listing += _said_by(*command)
    yield from (comment for comment in comments if comment in listing)
    if any(facts.get("do") == "close_bands" for facts in entries):
        yield from (
            line for line in _said_by("tc", "qdisc", "show").splitlines() if "netem" in line
        )


def _said_by(*command: str) -> str:
    program = shutil.which(command[0]) or shutil.which(command[0], path="/usr/sbin:/sbin")
    if program is None:
        return ""
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    return done.stdout


def _files(root: Path) -> Iterator[str]:
    yield from map(str, (root / "tmp").rglob("*"))
    hidden = (root / "runs").rglob(".*")
    yield from (str(path) for path in hidden if path.name != ".gitignore")


def _entries(root: Path) -> Iterator[dict[str, object]]:
    for path in root.rglob(UNDO_LOG):
        for line in path.read_text(errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # torn: its action was not begun
