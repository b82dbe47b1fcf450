"""What this machine can do, and what earlier runs left on it.

    examine ─► abilities: ok, limited or missing, each with what to do about it
            └► residue:   processes that outlived their run, each with the command that ends it

Examining changes nothing, starts no node, imports no accelerator library and takes a few seconds at
most; `repair` obtains what can be had. Pure data: printing is the command line's.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from chaoslab.fleet import cgroups, volume
from chaoslab.fleet.base import NODE_MARK
from chaoslab.fleet.cgroups import Controller
from chaoslab.janitor import find_runs
from chaoslab.launch import compilation_cache
from chaoslab.links import netem, netfilter, toxiproxy_binary
from chaoslab.obligations import open_obligations
from chaoslab.undo import leftovers

TOXIPROXY = "toxiproxy"
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


def repair(found: Diagnosis) -> tuple[str, ...]:
    """Obtain what is missing and can be had; what was done. FleetError says what was in the way."""
    missing = {one.name for one in found.abilities if one.state is State.MISSING}
    if TOXIPROXY not in missing:
        return ()
    return (f"installed {toxiproxy_binary.install()} (version {toxiproxy_binary.VERSION})",)


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
            _volumes(),
            _docker(),
            _toxiproxy(),
            _packet_loss(),
            _netem(),
            _accelerators(),
            _cache(),
        ),
        residue=(*_owed(runs_root), *strays()),
    )


# ---------------------------------------------------------------- what every run needs


def _python() -> Examined:
    return _ok("python", f"{platform.python_version()} at {sys.executable}")


def _cores() -> Examined:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if (count or 1) >= 2:
        return _ok("cores", f"{count}")
    return _limited("cores", f"{count}", "use fewer learners: --set training.learners=2")


def _memory() -> Examined:
    free = psutil.virtual_memory().available
    detail = f"{free / 1e9:.1f} GB available"
    if free >= _MEMORY_BYTES:
        return _ok("memory", detail)
    return _limited("memory", detail, "a learner takes about 0.4 GB: use fewer")


def _disk(runs_root: Path) -> Examined:
    free = shutil.disk_usage(_nearest(runs_root)).free
    detail = f"{free / 1e9:.1f} GB free for {runs_root}"
    if free >= _DISK_BYTES:
        return _ok("disk", detail)
    return _limited("disk", detail, "remove old runs, or write elsewhere with --out")


def _cache() -> Examined:
    place = compilation_cache()
    detail = f"{place}{'' if place.exists() else ' (made by the first run)'}"
    if os.access(_nearest(place), os.W_OK):
        return _ok("compilation cache", detail)
    return _limited("compilation cache", detail, "set CHAOSLAB_CACHE to a folder you may write")


def _nearest(place: Path) -> Path:
    """The folder itself, or the one above it that exists."""
    place = place.absolute()
    return place if place.exists() else _nearest(place.parent)


# ---------------------------------------------------------------- how faults and cleanup work here


def _pidfd() -> Examined:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return _limited("pidfd", f"not there ({error}): exits are looked for every 20 ms")
    return _ok("pidfd", "exits are noticed at once")


def _parent_death_signal() -> Examined:
    name = "parent-death signal"
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    held = ctypes.c_int()
    if prctl is None or prctl(_PR_GET_PDEATHSIG, ctypes.byref(held), 0, 0, 0) != 0:
        return _limited(name, "not there: if the harness is killed, the janitor ends the nodes")
    return _ok(name, "nodes die with the harness")


def _cgroups() -> Examined:
    """Both of those that faults ask for; what is said is what a run would find."""
    cpu, memory = cgroups.where(Controller.CPU), cgroups.where(Controller.MEMORY)
    instead = {
        "a chip is slowed by stopping and continuing it": cpu is None,
        "process.oom is refused, unless `by: imitation`": memory is None,
    }
    lacks = "; ".join(what for what, is_so in instead.items() if is_so)
    if cpu and memory:
        return _ok("cgroups", f"{cpu}, for compute.slow; {memory}, for process.oom")
    remedy = "run as root, or delegate a cgroup to your user"
    if cpu or memory:
        return _limited("cgroups", f"{cpu or memory} for one of CPU and memory: {lacks}", remedy)
    return _missing("cgroups", f"none in which we may make one: {lacks}", remedy)


def _volumes() -> Examined:
    if volume.can_mount():
        return _ok("volumes", "a node's disk can be full, for storage.disk_full")
    return _missing("volumes", "no right to mount: no disk can be full", "run as root, on Linux")


def _packet_loss() -> Examined:
    """Tried with a rule on a port of our own, which goes with the trial."""
    can, how = netfilter.is_available()
    if can:
        return _ok("packet loss", f"{how}, for network.loss")
    return _missing("packet loss", f"network.loss is refused: {how}")


def _netem() -> Examined:
    """Likewise."""
    can, how = netem.is_available()
    if can:
        return _limited("tc netem", f"{how}: there, but chaoslab has never been run with it")
    return _missing("tc netem", f"no duplicated, reordered or corrupt packets: {how}")


# ---------------------------------------------------------------- other places


def _docker() -> Examined:
    docker = _which("docker")
    if docker is None:
        return _missing("docker", "no client on PATH", "install it; the local fleet needs none")
    code, said = _ask(docker, "version", "--format", "{{.Server.Version}}")
    if code == 0 and said:
        return _ok("docker", f"engine {said}")
    remedy = "start the Docker daemon, or set DOCKER_HOST"
    return _limited("docker", f"client without an engine: {said or 'no answer'}", remedy)


def _toxiproxy() -> Examined:
    server = toxiproxy_binary.find()
    if server is not None:
        return _ok(TOXIPROXY, str(server))
    remedy = "chaoslab doctor --fix installs it; links: embedded needs none"
    return _missing(TOXIPROXY, "no toxiproxy-server on PATH or in the cache", remedy)


def _accelerators() -> Examined:
    """By device files: asking JAX would take the devices from a run."""
    devices = Path("/dev")
    found = (*devices.glob("accel*"), *devices.glob("vfio/[0-9]*"), *devices.glob("nvidia[0-9]*"))
    if not found:
        return _missing("accelerators", "none: learners compute on the CPU")
    return _ok("accelerators", ", ".join(sorted(map(str, found))))


# ---------------------------------------------------------------- asking


def _ok(name: str, detail: str) -> Examined:
    return Examined(name=name, state=State.OK, detail=detail)


def _limited(name: str, detail: str, remedy: str = "") -> Examined:
    return Examined(name=name, state=State.LIMITED, detail=detail, remedy=remedy)


def _missing(name: str, detail: str, remedy: str = "") -> Examined:
    return Examined(name=name, state=State.MISSING, detail=detail, remedy=remedy)


def _which(program: str) -> str | None:
    """Where it is; system administrators' programs are not on everybody's PATH."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


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
    """Processes and rules of runs whose harness is dead."""
    found = []
    for run in find_runs(runs_root):
        left = sorted({what for owed in open_obligations(run) for what in leftovers(owed)})
        if left:
            found.append(
                Residue(
                    what=f"{len(left)} things outlived their run ({_listed(left)})",
                    where=str(run),
                    remedy=f"chaoslab heal {run}",
                )
            )
    return found


def strays() -> list[Residue]:
    """Nodes and proxies whose parent is dead, whichever run they belonged to."""
    found = []
    for process in psutil.process_iter():
        try:
            words, environment = process.cmdline(), process.environ()
            is_ours = NODE_MARK in environment or any("chaoslab.diloco" in word for word in words)
            if is_ours and _is_orphan(process):
                mark = environment.get(NODE_MARK, "unknown run")
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


def _listed(left: list[str]) -> str:
    shown = ", ".join(left[:5])
    return f"{shown}, …" if len(left) > 5 else shown
