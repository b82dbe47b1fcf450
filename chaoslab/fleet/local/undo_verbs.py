"""Undo of what lies beside a local node: limits on it, volumes below it, its private files.

    remove_cgroup   a limit on some processes, which go back to where they were
    unmount         a node's own volume; what is in it stays
    free_volume     a volume that is full has room again
    remove_private_folder   keys of the nodes, which lie outside the record

A cgroup is called by the pid of its harness; the table of mounts says which volumes are ours.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaoslab.core.private_files import open_folder
from chaoslab.core.process_identity import is_running
from chaoslab.fleet.local import cgroups
from chaoslab.fleet.local.cgroups import Controller
from chaoslab.fleet.private_folder import UNDO_PRIVATE, abandoned, is_made_for, remove
from chaoslab.fleet.storage import files, power, volume
from chaoslab.undo.facts import NODE, Facts, require, require_match
from chaoslab.undo.harness import is_in_progress
from chaoslab.undo.verbs import (
    Examined,
    Healed,
    Leftover,
    Maintenance,
    Verb,
    limited,
    missing,
    ok,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFacts(Facts):
    """A cgroup of ours, and the one that its processes go back to."""

    node: str
    path: str
    back: str

    def __post_init__(self) -> None:
        require_match(NODE, self.node, "node")
        require(
            cgroups.is_made_here(Path(self.path), Path(self.back)),
            f"{self.path} is no cgroup that chaoslab made, with {self.back} to go back to",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts(Facts):
    """A volume beneath what a node keeps."""

    node: str
    folder: str

    def __post_init__(self) -> None:
        require_match(NODE, self.node, "node")
        names = self.names
        is_its = (len(names) == 3 and names[:2] == ("nodes", self.node)) or names == ("script",)
        require(
            is_its and str(self.directory.joinpath(*names)) == self.folder,
            f"{self.folder} is not what {self.node} keeps in {self.directory}",
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The way to it from the directory; empty if it lies elsewhere."""
        folder = Path(self.folder)
        if not folder.is_relative_to(self.directory) or ".." in folder.parts:
            return ()
        return folder.relative_to(self.directory).parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFacts(Facts):
    """The folder of the private files of a run's nodes."""

    folder: str

    def __post_init__(self) -> None:
        require(
            is_made_for(self.directory, Path(self.folder)),
            f"{self.folder} is no folder of private files of {self.directory}",
        )


def _remove_cgroup(facts: CgroupFacts) -> Healed:
    """Give its processes back and remove it; FleetError if the kernel does not let go of it."""
    was_there = cgroups.remove(Path(facts.path), Path(facts.back))
    return Healed(actions=(f"the cgroup {facts.path}, removed",) if was_there else ())


def _cgroup(facts: CgroupFacts) -> tuple[str, ...]:
    return (f"the cgroup {facts.path}",) if Path(facts.path).is_dir() else ()


def _unmount(facts: VolumeFacts) -> Healed:
    """Take a volume away; FleetError if the kernel refuses."""
    what = _volume(facts)
    volume.release(_own_folder(facts))
    return Healed(actions=tuple(f"{one}, unmounted" for one in what))


def _volume(facts: VolumeFacts) -> tuple[str, ...]:
    is_mounted = volume.is_mounted(_own_folder(facts))
    return (f"the volume at {facts.folder}",) if is_mounted else ()


def _free(facts: VolumeFacts) -> Healed:
    """Give a full volume room again; FleetError if the kernel refuses."""
    what = _full(facts)
    if what:
        volume.free(_own_folder(facts))
    return Healed(actions=tuple(f"{one}, which has room again" for one in what))


def _full(facts: VolumeFacts) -> tuple[str, ...]:
    folder = _own_folder(facts)
    is_full = volume.is_mounted(folder) and not volume.measure(folder).free_bytes
    return (f"the full volume at {folder}",) if is_full else ()


def _own_folder(facts: VolumeFacts) -> Path:
    """Where the volume is; FleetError if there is a link on the way, or others may write there.

    It may be gone already, and be there again from what was kept beside it.
    """
    try:
        with open_folder(facts.directory, *facts.names):
            return Path(facts.folder)
    except FileNotFoundError:
        return Path(facts.folder)


def _remove_private(facts: PrivateFacts) -> Healed:
    was_there = remove(Path(facts.folder))
    return Healed(actions=(f"the keys in {facts.folder}, removed",) if was_there else ())


def _private(facts: PrivateFacts) -> tuple[str, ...]:
    return (f"the keys in {facts.folder}",) if Path(facts.folder).is_dir() else ()


# ---------------------------------------------------------------- leftovers


def _leftovers(_: Path) -> Iterator[Leftover]:
    yield from _dead_cgroups()
    yield from _lost_volumes()
    yield from _abandoned_keys()


def _dead_cgroups() -> Iterator[Leftover]:
    """Cgroups whose harness, by the pid in their name, is dead."""
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


def _lost_volumes() -> Iterator[Leftover]:
    """Volumes of runs whose harness is gone: RUN/nodes/<name>/<folder>."""
    for where in volume.mounted():
        folder = Path(where)
        run = folder.parents[2] if len(folder.parents) > 2 else folder
        if not is_in_progress(run):
            yield Leftover(what="a volume of a node", where=where,
                          remedy=f"umount {shlex.quote(where)}")  # fmt: skip


def _abandoned_keys() -> Iterator[Leftover]:
    for folder in abandoned():
        yield Leftover(what="keys of the nodes of a dead harness", where=str(folder),
                       remedy=f"rm -r {shlex.quote(str(folder))}",
                       remove=partial(_remove_keys, folder))  # fmt: skip


def _remove_keys(folder: Path) -> str:
    remove(folder)
    return "removed, with the keys of the nodes of a dead harness"


# ---------------------------------------------------------------- what this machine can do


def _diagnose() -> Iterator[Examined]:
    yield _cgroups()
    yield _volumes()
    yield _power()


def _cgroups() -> Examined:
    """Both controllers that faults need, as a run would find them."""
    cpu, memory = cgroups.where(Controller.CPU), cgroups.where(Controller.MEMORY)
    instead = {
        "a chip is slowed by stopping and continuing it": cpu is None,
        "process.oom is refused, unless `by: imitation`": memory is None,
    }
    lacks = "; ".join(what for what, is_so in instead.items() if is_so)
    if cpu and memory:
        return ok("cgroups", f"{cpu}, for compute.slow; {memory}, for process.oom")
    remedy = "run as root, or delegate a cgroup to your user"
    if cpu or memory:
        return limited("cgroups", f"{cpu or memory} for one of CPU and memory: {lacks}", remedy)
    return missing("cgroups", f"none in which we may make one: {lacks}", remedy)


def _volumes() -> Examined:
    if volume.can_mount():
        return ok("volumes", "a node's disk can be full, for storage.disk_full")
    return missing("volumes", "no right to mount: no disk can be full", "run as root, on Linux")


def _power() -> Examined:
    if volume.can_lose_power():
        return ok("power cuts", "a node's disk can lose its power, for storage.power_loss")
    why = power.why_not() or "no right to mount"
    return missing(
        "power cuts", f"{why}: storage.power_loss is refused", "run as root, with e2fsprogs"
    )


MAINTENANCE = Maintenance(
    verbs={
        cgroups.UNDO_CGROUP: Verb(
            facts=CgroupFacts,
            undo=_remove_cgroup,
            left=_cgroup,
            is_safe_during_run=True,
            ends_with_boot=True,
        ),
        files.UNDO_VOLUME: Verb(facts=VolumeFacts, undo=_unmount, left=_volume),
        UNDO_PRIVATE: Verb(facts=PrivateFacts, undo=_remove_private, left=_private, is_last=True),
        files.UNDO_FILLED: Verb(facts=VolumeFacts, undo=_free, left=_full, is_safe_during_run=True),
    },
    leftovers=_leftovers,
    diagnose=_diagnose,
)
