"""What this machine can do, and what earlier runs left on it. It changes nothing.

    examine ─► abilities: ok, limited or missing, each with what to do about it
            └► residue:   processes that outlived their run, each with the command that ends it

It starts no node, imports no accelerator library and takes a few seconds at most. Pure data:
printing is the command line's.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from chaoslab.fleet.base import NODE_MARK
from chaoslab.janitor import find_runs, open_obligations, still_there
from chaoslab.launch import compilation_cache

_ASK_S = 5.0
"""How long a command that is asked about itself may take."""
_DISK_BYTES = 2 << 30
_MEMORY_BYTES = 3 << 30
"""Four nano learners, a syncer and the harness, with room to breathe."""
_PR_GET_PDEATHSIG = 2
_ADOPTERS = frozenset({"init", "systemd", "tini", "dumb-init", "docker-init", "catatonit"})
"""What takes in the children of the dead beside process 1."""


class State(StrEnum):
    """How far an ability goes."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One ability of the machine."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    """What to do about it; empty when it is ok or nothing can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residue:
    """Something that an earlier run left, and the command that removes it."""

    what: str
    where: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything found."""

    abilities: tuple[Examined, ...]
    residue: tuple[Residue, ...]


def examine(runs_root: Path) -> Diagnosis:
    """Look at this machine and at the runs below `runs_root`, which need not exist."""
    return Diagnosis(
        abilities=(
            _python(),
            _cores(),
            _memory(),
            _disk(runs_root),
            _pidfd(),
            _parent_death_signal(),
            _cgroups(),
            _docker(),
            _toxiproxy(),
            _netem(),
            _iptables(),
            _accelerators(),
            _cache(),
        ),
        residue=(*_owed(runs_root), *_strays()),
    )


# ---------------------------------------------------------------- what every run needs


def _python() -> Examined:
    version = ".".join(map(str, sys.version_info[:3]))
    is_new = sys.version_info >= (3, 11)
    return Examined(
        name="python",
        state=State.OK if is_new else State.MISSING,
        detail=f"{version} at {sys.executable}",
        remedy="" if is_new else "install Python 3.11 or newer",
    )


def _cores() -> Examined:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    is_enough = (count or 1) >= 2
    return Examined(
        name="cores",
        state=State.OK if is_enough else State.LIMITED,
        detail=f"{count}",
        remedy="" if is_enough else "use fewer learners: --set training.learners=2",
    )


def _memory() -> Examined:
    free = psutil.virtual_memory().available
    is_enough = free >= _MEMORY_BYTES
    return Examined(
        name="memory",
        state=State.OK if is_enough else State.LIMITED,
        detail=f"{free / 1e9:.1f} GB available",
        remedy=""
        if is_enough
        else "a learner takes about 0.4 GB: use fewer, or end other programs",
    )


def _disk(runs_root: Path) -> Examined:
    place = runs_root.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    is_enough = free >= _DISK_BYTES
    return Examined(
        name="disk",
        state=State.OK if is_enough else State.LIMITED,
        detail=f"{free / 1e9:.1f} GB free for {runs_root}",
        remedy="" if is_enough else "remove old runs, or write elsewhere with --out",
    )


def _cache() -> Examined:
    place = compilation_cache()
    there = place
    while not there.exists():
        there = there.parent
    is_writable = os.access(there, os.W_OK)
    return Examined(
        name="compilation cache",
        state=State.OK if is_writable else State.LIMITED,
        detail=f"{place}{'' if place.exists() else ' (made by the first run)'}",
        remedy="" if is_writable else "set CHAOSLAB_CACHE to a folder that you may write",
    )


# ---------------------------------------------------------------- how faults and cleanup work here


def _pidfd() -> Examined:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return Examined(
            name="pidfd",
            state=State.LIMITED,
            detail=f"not there ({error}): exits are looked for every 20 ms",
        )
    return Examined(name="pidfd", state=State.OK, detail="exits are noticed at once")


def _parent_death_signal() -> Examined:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    held = ctypes.c_int()
    if prctl is None or prctl(_PR_GET_PDEATHSIG, ctypes.byref(held), 0, 0, 0) != 0:
        return Examined(
            name="parent-death signal",
            state=State.LIMITED,
            detail="not there: should the harness be killed, the janitor alone ends the nodes",
        )
    return Examined(name="parent-death signal", state=State.OK, detail="nodes die with the harness")


def _cgroups() -> Examined:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        version, place = "v2", root
    elif (root / "cpu").is_dir():
        version, place = "v1", root / "cpu"
    else:
        return Examined(
            name="cgroups",
            state=State.MISSING,
            detail=f"none at {root}: a chip is slowed by stopping and continuing it",
        )
    if os.access(place, os.W_OK):
        return Examined(name="cgroups", state=State.OK, detail=f"{version}, writable at {place}")
    return Examined(
        name="cgroups",
        state=State.LIMITED,
        detail=f"{version}, not writable: a chip is slowed by stopping and continuing it",
        remedy="run as root, or delegate a cgroup to your user",
    )


def _netem() -> Examined:
    """Tried in a network namespace of its own, which vanishes with the command."""
    tc, unshare = shutil.which("tc"), shutil.which("unshare")
    if tc is None or unshare is None:
        return Examined(
            name="tc netem",
            state=State.MISSING,
            detail=f"no {'tc' if tc is None else 'unshare'} on PATH",
            remedy="install iproute2 and util-linux, or use links: toxiproxy",
        )
    code, said = _ask(
        unshare, "-rn", tc, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"
    )
    if code == 0:
        return Examined(name="tc netem", state=State.OK, detail="loss, reordering, corruption")
    return Examined(
        name="tc netem",
        state=State.MISSING,
        detail=f"this kernel or user cannot: {said}",
        remedy="use links: toxiproxy, or a kernel with sch_netem",
    )


def _iptables() -> Examined:
    iptables = shutil.which("iptables", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if iptables is None:
        return Examined(
            name="iptables",
            state=State.MISSING,
            detail="not on PATH",
            remedy="install iptables, or use links: toxiproxy",
        )
    code, said = _ask(iptables, "-S", "INPUT")
    if code == 0:
        return Examined(name="iptables", state=State.OK, detail=iptables)
    return Examined(
        name="iptables", state=State.LIMITED, detail=f"not allowed: {said}", remedy="run as root"
    )


# ---------------------------------------------------------------- other places


def _docker() -> Examined:
    docker = shutil.which("docker")
    if docker is None:
        return Examined(
            name="docker",
            state=State.MISSING,
            detail="no client on PATH",
            remedy="install Docker for the docker fleet; the local one needs none",
        )
    code, said = _ask(docker, "version", "--format", "{{.Server.Version}}")
    if code == 0 and said:
        return Examined(name="docker", state=State.OK, detail=f"engine {said}")
    return Examined(
        name="docker",
        state=State.LIMITED,
        detail=f"client without an engine: {said or 'no answer'}",
        remedy="start the Docker daemon, or set DOCKER_HOST",
    )


def _toxiproxy() -> Examined:
    server = shutil.which("toxiproxy-server")
    return Examined(
        name="toxiproxy",
        state=State.OK if server else State.MISSING,
        detail=server or "no toxiproxy-server on PATH",
        remedy="" if server else "install it for links: toxiproxy; process faults need none",
    )


def _accelerators() -> Examined:
    """By device files: asking JAX would take the devices from a run."""
    tpus = sorted(map(str, (*Path("/dev").glob("accel*"), *Path("/dev/vfio").glob("[0-9]*"))))
    gpus = sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))
    if not tpus and not gpus:
        return Examined(
            name="accelerators", state=State.MISSING, detail="none: learners compute on the CPU"
        )
    return Examined(name="accelerators", state=State.OK, detail=", ".join((*tpus, *gpus)))


def _ask(*command: str) -> tuple[int, str]:
    """Exit code and first line that a command prints; 1 and the reason if it cannot be asked."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ASK_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).splitlines()
    return done.returncode, lines[0] if lines else ""


# ---------------------------------------------------------------- what was left


def _owed(runs_root: Path) -> list[Residue]:
    """Processes of runs whose harness is dead."""
    found = []
    for run in find_runs(runs_root):
        pids = sorted({pid for owed in open_obligations(run) for pid in still_there(owed)})
        if pids:
            found.append(
                Residue(
                    what=f"{len(pids)} processes outlived their run ({_listed(pids)})",
                    where=str(run),
                    remedy=f"chaoslab heal {run}",
                )
            )
    return found


def _strays() -> list[Residue]:
    """Nodes whose parent is dead, whichever run they belonged to."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if any("chaoslab.diloco" in word for word in words) and _is_orphan(process):
                mark = process.environ().get(NODE_MARK, "unknown run")
                found.append(
                    Residue(
                        what=f"process {process.pid} has lost its harness: {' '.join(words)[:100]}",
                        where=mark,
                        remedy=f"kill -KILL {process.pid}",
                    )
                )
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's, which we could not end anyway
    return found


def _is_orphan(process: psutil.Process) -> bool:
    """Adopted by process 1 or its like, unless that is a harness in a container."""
    parent = process.parent()
    if parent is None:
        return True
    is_adopter = parent.pid == 1 or parent.name() in _ADOPTERS
    return is_adopter and not any("chaoslab" in word for word in parent.cmdline())


def _listed(pids: list[int]) -> str:
    shown = ", ".join(map(str, pids[:5]))
    return f"{shown}, …" if len(pids) > 5 else shown
