"""What this machine can do, and what earlier runs left on it.

    examine ─► abilities: ok, limited or missing, each with what to do about it
            └► residue:   what outlived its run (`residue`), each with the command that removes it

Examining changes nothing, starts no node, imports no accelerator library and takes a few seconds at
most; `repair` obtains what can be had. Pure data: printing is the command line's.
"""

import ctypes
import os
import platform
import shutil
import sys
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from chaoslab.core.errors import AbilityError, FleetError
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.storage import power, volume
from chaoslab.links import kernel, netem, netfilter, toxiproxy_binary
from chaoslab.prepare.launch import compilation_cache
from chaoslab.undo import leftovers as residue
from chaoslab.undo.leftovers import Leftover

TOXIPROXY = "toxiproxy"
_DISK_BYTES = 2 << 30
_MEMORY_BYTES = 3 << 30
"""Four nano learners, a syncer and the harness, with room to breathe."""
_PR_GET_PDEATHSIG = 2


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
class Diagnosis:
    """Everything found."""

    abilities: tuple[Examined, ...]
    residue: tuple[Leftover, ...]


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
            _power(),
            _namespaces(),
            _docker(),
            _container_links(),
            _toxiproxy(),
            _packet_loss(),
            _netem(),
            _accelerators(),
            _cache(),
        ),
        residue=residue.find(runs_root),
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


def _power() -> Examined:
    if volume.can_lose_power():
        return _ok("power cuts", "a node's disk can lose its power, for storage.power_loss")
    why = power.why_not() or "no right to mount"
    return _missing(
        "power cuts", f"{why}: storage.power_loss is refused", "run as root, with e2fsprogs"
    )


def _namespaces() -> Examined:
    """Where rules for packets are tried without touching anybody's."""
    why_not = kernel.why_no_namespace()
    if not why_not:
        return _ok("namespaces", "a network of its own can be made to try rules for packets in")
    return _missing(
        "namespaces", f"rules for packets are tried in place, and taken back: {why_not}"
    )


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
    """The engine that a run would use, by its own word."""
    name = "docker"
    try:
        from chaoslab.fleet.docker import images  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.capabilities import lacking  # noqa: PLC0415
        from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415

        with closing(Engine.connect()) as engine:
            facts = engine.facts()
            unbuilt = [one for one in images.needed() if engine.image_id(one) is None]
    except AbilityError as error:
        return _missing(name, "no engine can be used from here", str(error))
    except FleetError as error:
        return _limited(name, f"an engine that refuses: {error}")
    version, api, cgroup = (facts.get(key) for key in ("Version", "ApiVersion", "CgroupVersion"))
    detail = f"engine {version}, API {api}, cgroup v{cgroup}"
    lacks = sorted(set(lacking(facts).values()))
    if unbuilt:
        lacks.append(f"no image {', '.join(unbuilt)}")
    if lacks:
        remedy = "chaoslab images build" if unbuilt else ""
        return _limited(name, f"{detail}: {'; '.join(lacks)}", remedy)
    return _ok(name, detail)


def _container_links() -> Examined:
    """What the kernel under the engine does to packets, tried there; the engine may be far away."""
    name = "container links"
    try:
        from chaoslab.fleet.docker.engine import Engine  # noqa: PLC0415  # needs the SDK
        from chaoslab.fleet.docker.kernel_probe import tried  # noqa: PLC0415

        with closing(Engine.connect()) as engine:
            found = tried(engine)
    except AbilityError:
        return _missing(name, "no engine to try them on")
    except FleetError as error:
        return _limited(name, f"the trial was refused: {error}")
    if found.forwarding:
        return _missing(name, f"no links: netem, no network.loss: {found.forwarding}")
    reasons = {*found.lacks.values(), found.proxy_loss} - {""}
    if reasons:
        lacking = ", ".join(sorted(found.lacks)) or "loss beside a proxy"
        return _limited(name, f"links: netem without {lacking}: {'; '.join(sorted(reasons))}")
    return _limited(name, "all that links: netem can do; delays by it have never been run")


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
