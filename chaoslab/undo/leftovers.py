"""What earlier runs left on this machine, each with the command that removes it.

    books of dead runs ─► what is owed and still there
    the machine itself ─► what no book that is known names: its record is elsewhere, or gone

    containers, networks and volumes of an engine by their labels
    processes by their mark · cgroups by the pid of their harness · volumes by what the table of
    mounts calls ours · rules for packets by their comment · half-written files in records

Looking changes nothing. A qdisc is known by a book alone: it bears no name of ours.
"""

import shlex
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.core.process_identity import NODE_MARK
from chaoslab.core.process_tree import is_running
from chaoslab.fleet.docker.labels import LABEL_RUN
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.storage import volume
from chaoslab.links import kernel
from chaoslab.undo.actions import UndoEntry, leftovers
from chaoslab.undo.halt import find_runs as known_runs
from chaoslab.undo.janitor import find_runs, half_written
from chaoslab.undo.log import is_held, may_owe, open_undos

_ADOPTERS = frozenset({"init", "systemd", "tini", "dumb-init", "docker-init", "catatonit"})
"""What takes in the children of the dead beside process 1."""
_LABEL = "chaoslab:"
"""How the comment of every rule of ours begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something that an earlier run left, and the command that removes it."""

    what: str
    where: str
    remedy: str


def find(runs_root: Path) -> tuple[Leftover, ...]:
    """Everything, looked for on the machine and below `runs_root`, which need not exist."""
    return (
        *_owed(runs_root),
        *strays(),
        *_cgroups(),
        *_volumes(),
        *_rules(runs_root),
        *_half_written(runs_root),
        *_containers(),
    )


# ---------------------------------------------------------------- by the books


def _owed(runs_root: Path) -> Iterator[Leftover]:
    """What is left of runs whose harness is dead."""
    for run in find_runs(runs_root):
        try:
            left = sorted({what for owed in open_undos(run) for what in leftovers(owed)})
        except FleetError as error:
            yield Leftover(what=f"a book that cannot be read: {error}", where=str(run),
                          remedy=f"chaoslab heal {run}")  # fmt: skip
            continue
        if left:
            shown = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
            yield Leftover(
                what=f"{len(left)} things outlived their run ({shown})",
                where=str(run),
                remedy=f"chaoslab heal {run}",
            )


def _half_written(runs_root: Path) -> Iterator[Leftover]:
    """Files that a harness was about to put in place of others."""
    for run in runs_root.glob("[!.]*/[!.]*"):
        if run.is_symlink() or run.parent.is_symlink() or is_held(run):
            continue
        for path in half_written(run):
            yield Leftover(what=f"half a file, {path.name}", where=str(path.parent),
                          remedy=f"chaoslab heal {run}")  # fmt: skip


# ---------------------------------------------------------------- by the machine itself


def strays() -> tuple[Leftover, ...]:
    """Nodes and proxies whose parent is dead, whichever run they belonged to."""
    return tuple(_strays())


def _strays() -> Iterator[Leftover]:
    for process in psutil.process_iter():
        try:
            words, environment = process.cmdline(), process.environ()
            is_ours = NODE_MARK in environment or any("chaoslab.diloco" in word for word in words)
            if is_ours and not _is_contained(process) and _is_orphan(process):
                yield Leftover(
                    what=f"process {process.pid} has lost its harness: {' '.join(words)[:100]}",
                    where=environment.get(NODE_MARK, "unknown run"),
                    remedy=f"kill -KILL {process.pid}",
                )
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's, which we could not end anyway


def _is_contained(process: psutil.Process) -> bool:
    """In a container, whose engine answers for it."""
    return Path(f"/proc/{process.pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()


def _is_orphan(process: psutil.Process) -> bool:
    """Adopted by process 1 or its like, unless that is a harness in a container."""
    parent = process.parent()
    if parent is None:
        return True
    is_adopter = parent.pid == 1 or parent.name() in _ADOPTERS
    return is_adopter and not any("chaoslab" in word for word in parent.cmdline())


def _cgroups() -> Iterator[Leftover]:
    """Those whose harness, by whose pid they are called, is dead."""
    for path, back in cgroups.made():
        pid = path.name.partition("-")[0]
        if pid.isdecimal() and is_running(int(pid)):
            continue
        here, there = (shlex.quote(str(one / "cgroup.procs")) for one in (path, back))
        yield Leftover(
            what=f"a cgroup of the dead harness {pid}",
            where=str(path),
            remedy=f"while read p; do echo $p > {there}; done < {here}; "
            f"rmdir {shlex.quote(str(path))}",
        )


def _volumes() -> Iterator[Leftover]:
    """Those below no run that somebody runs: RUN/nodes/<name>/<folder>."""
    for where in volume.mounted():
        folder = Path(where)
        run = folder.parents[2] if len(folder.parents) > 2 else folder
        if not is_held(run):
            yield Leftover(what="a volume of a node", where=where,
                          remedy=f"umount {shlex.quote(where)}")  # fmt: skip


def _rules(runs_root: Path) -> Iterator[Leftover]:
    """By iptables or nft, those with our label that no book names; only root sees any."""
    if not kernel.may_administer_network():
        return
    named = {
        str(owed.facts.get("comment")) for run in known_runs(runs_root) for owed in _legible(run)
    }
    code, listed = kernel.ask(("iptables", "-S", "INPUT"))
    for line in listed.splitlines() if code == 0 else ():
        words = shlex.split(line)
        comment = next((word for word in words if word.startswith(_LABEL)), None)
        if comment is not None and comment not in named:
            yield Leftover(what=f"a rule for packets ({comment})", where="iptables, INPUT",
                          remedy=f"iptables -D {line.removeprefix('-A ')}")  # fmt: skip
    code, listed = kernel.ask(("nft", "list", "table", "inet", "chaoslab"))
    if code == 0 and not any(comment and comment in listed for comment in named):
        yield Leftover(what="a table of rules for packets", where="nft, inet chaoslab",
                      remedy="nft delete table inet chaoslab")  # fmt: skip


def _legible(run: Path) -> tuple[UndoEntry, ...]:
    try:
        return open_undos(run)
    except FleetError:  # which `_owed` tells
        return ()


def _containers() -> Iterator[Leftover]:
    """On the engine that answers here: what this machine made for runs that nobody runs."""
    try:
        from chaoslab.fleet.docker.cleanup import all_run_resources  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415

        with closing(Engine.connect()) as engine:
            url, found = engine.url, all_run_resources(engine)
    except (AbilityError, FleetError):
        return  # no engine, or one that refuses, which `doctor` says: nothing on it can be seen
    for run, directory in found.items():
        path = Path(directory)
        holding = path.parent if path.name == "control" else path
        if not path.exists() or not is_held(holding):
            here = f"$(docker ps -aq --filter label={LABEL_RUN}={run})"
            is_known = path.exists() and may_owe(holding)
            yield Leftover(
                what=f"containers, a network or volumes labelled {LABEL_RUN}={run}",
                where=url,
                remedy=f"chaoslab heal {holding}"
                if is_known
                else f"docker rm -f {here}; "
                f"docker network rm chaoslab-{run}; docker volume rm "
                f"$(docker volume ls -q --filter label={LABEL_RUN}={run})",
            )
