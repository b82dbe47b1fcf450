"""Cgroups made by the harness: limits of CPU time and memory on some processes, v1 or v2.

    where(controller) ─► Home: the folder in which one can be made ─► Cgroup.make ─► set, take in
        v1  /sys/fs/cgroup/cpu/<as the harness>/chaoslab/<name>
        v2  /sys/fs/cgroup/<beside the harness>/chaoslab/<name>     ◄── remove: processes go back

They are below the cgroup of the harness (v1) or beside it (v2, where a cgroup has either processes
or children), so limits on the harness also apply to its nodes. `where` changes nothing.
"""

import math
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from chaoslab.core.errors import FleetError

UNDO_CGROUP = "remove_cgroup"
"""Undo verb; its facts are `path` and `back`."""
_OURS = "chaoslab"
_NAME = re.compile(r"\d+-[\w-]+-\d+-[\w.-]+")
"""Pid of the harness, node, incarnation, injection."""
_MOUNTS = Path("/proc/self/mounts")
_MEMBERSHIP = Path("/proc/self/cgroup")
_PERIOD_US = 50_000
"""Half of the kernel's default, which stops a node that steps every 30 ms for too long at once."""
_QUOTA_US_LEAST = 1000
"""Least quota that the kernel accepts."""
_REMOVE_S = 2.0
"""Time until the kernel releases a cgroup whose processes have just ended."""


class Controller(StrEnum):
    """Controller of a cgroup."""

    CPU = "cpu"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Place for cgroups of one controller."""

    controller: Controller
    version: int
    parent: Path
    """Folder in which the folder `chaoslab` is made."""
    back: Path
    """Cgroup of the harness, and of its nodes until they are moved."""

    def __str__(self) -> str:
        return f"cgroup v{self.version}"


def where(
    controller: Controller, *, mounts: Path = _MOUNTS, membership: Path = _MEMBERSHIP
) -> Home | None:
    """Parent of new cgroups; None if the kernel or the rights of this process forbid them."""
    for place, kind, options in _mounted(mounts):
        inside = _own(membership, "" if kind == "cgroup2" else controller.value)
        if inside is None:
            continue
        back = place / inside.lstrip("/")
        if kind == "cgroup" and controller.value in options and _is_writable(back, _PROCS):
            return Home(controller=controller, version=1, parent=back, back=back)
        if kind == "cgroup2" and (parent := _delegated(place, back, controller)):
            return Home(controller=controller, version=2, parent=parent, back=back)
    return None


class Cgroup:
    """One cgroup. `make` is called after its undo entry was written."""

    def __init__(self, home: Home, name: str) -> None:
        self.home = home
        self.path = home.parent / _OURS / name

    def make(self) -> None:
        """Make it. FleetError if the kernel refuses."""
        try:
            self.path.parent.mkdir(exist_ok=True)
            if self.home.version == 2:
                for above in (self.home.parent, self.path.parent):
                    _enable(above, self.home.controller)
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise FleetError(f"the cgroup {self.path} cannot be made: {error}") from error

    def take_in(self, pids: Iterable[int]) -> None:
        """Move processes here; those that have ended are left out."""
        for pid in pids:
            _move(pid, self.path)

    def limit_cpu(self, cores: float) -> None:
        """Limit to the time of this many cores, in every period."""
        quota_us = max(_QUOTA_US_LEAST, round(cores * _PERIOD_US))
        if self.home.version == 1:
            self._write("cpu.cfs_period_us", str(_PERIOD_US))
            self._write("cpu.cfs_quota_us", str(quota_us))
        else:
            self._write("cpu.max", f"{quota_us} {_PERIOD_US}")

    def limit_memory(self, size_bytes: int) -> None:
        """Limit memory, without swap; the kernel kills processes that need more."""
        if self.home.version == 1:
            limits = {
                "memory.limit_in_bytes": size_bytes,
                "memory.memsw.limit_in_bytes": size_bytes,
            }
        else:
            limits = {"memory.max": size_bytes, "memory.swap.max": 0}
        for file, most_bytes in limits.items():
            if (self.path / file).exists() or "sw" not in file:  # a kernel may not count swap
                self._write(file, str(most_bytes))

    @property
    def throttled_s(self) -> float:
        """Seconds for which the quota kept its processes from a core."""
        counts = self._counts("cpu.stat")
        return counts.get("throttled_time", 0) / 1e9 + counts.get("throttled_usec", 0) / 1e6

    @property
    def oom_kills(self) -> int:
        """Processes in it that the kernel killed because of the limit."""
        file = "memory.oom_control" if self.home.version == 1 else "memory.events"
        return self._counts(file).get("oom_kill", 0)

    def _counts(self, file: str) -> dict[str, int]:
        try:
            lines = (self.path / file).read_text().splitlines()
        except OSError as error:
            raise FleetError(f"{self.path / file} cannot be read: {error}") from error
        return {key: int(value) for key, _, value in (line.partition(" ") for line in lines)}

    def _write(self, file: str, words: str) -> None:
        try:
            (self.path / file).write_text(words)
        except OSError as error:
            raise FleetError(f"{words!r} cannot be written to {self.path / file}: {error}") from (
                error
            )


def remove(path: Path, back: Path) -> bool:
    """Move what is in a cgroup back and remove it; whether there was one. May be done twice.

    FleetError if the kernel does not let go of it, or if it is no cgroup of ours.
    """
    if not path.is_dir():
        _remove_folder(path.parent)
        return False
    if path.parent.name != _OURS or ".." in path.parts or not (path / _PROCS).exists():
        raise FleetError(f"{path} is no cgroup that chaoslab made: it is left alone")
    deadline = time.monotonic() + _REMOVE_S
    while True:
        for pid in _words(path / _PROCS):
            _move(int(pid), back)
        try:
            path.rmdir()
            break
        except FileNotFoundError:
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise FleetError(f"the cgroup {path} cannot be removed: {error}") from error
            time.sleep(0.01)
    _remove_folder(path.parent)
    return True


def is_made_here(path: Path, back: Path, *, mounts: Path = _MOUNTS) -> bool:
    """Whether they are cgroups of this kernel: one that `Cgroup` makes, and one beside or above it
    that its processes may have come from. Neither need be there.
    """
    for place, _, _ in _mounted(mounts):
        home = path.parent.parent
        is_ours = path.parent.name == _OURS and bool(_NAME.fullmatch(path.name))
        is_below = home.is_relative_to(place) and back.is_relative_to(home)
        if is_ours and is_below and ".." not in (*path.parts, *back.parts):
            return True
    return False


def _remove_folder(folder: Path) -> None:
    """Remove the folder of all cgroups of chaoslab if it is empty."""
    if folder.name == _OURS and (folder / _PROCS).exists():
        with suppress(OSError):  # another run has one in it
            folder.rmdir()


def memory_left_bytes(*, mounts: Path = _MOUNTS, membership: Path = _MEMBERSHIP) -> float:
    """Memory that limits around the harness, such as a container's, leave it; inf without limits.

    Cached files, which the kernel drops first, count as free.
    """
    left_bytes = math.inf
    for place, kind, options in _mounted(mounts):
        inside = _own(membership, "" if kind == "cgroup2" else Controller.MEMORY.value)
        if inside is None or (kind == "cgroup" and Controller.MEMORY.value not in options):
            continue
        own = place / inside.lstrip("/")
        around = [one for one in (own, *own.parents) if one == place or place in one.parents]
        left_bytes = min([left_bytes, *(_left_bytes(one, kind) for one in around)])
    return left_bytes


def made() -> tuple[tuple[Path, Path], ...]:
    """Existing cgroups of all runs, each with the cgroup that its processes go back to."""
    homes = filter(None, map(where, Controller))
    return tuple(
        (path, home.back)
        for home in homes
        for path in sorted((home.parent / _OURS).glob("*"))
        if path.is_dir()
    )


# ---------------------------------------------------------------- asking the kernel

_PROCS = "cgroup.procs"
_MEMORY_FILES = {
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "cgroup2": ("memory.max", "memory.current", "inactive_file"),
}
"""Files of the limit and the use; key in `memory.stat` of the use that is dropped first."""


def _mounted(mounts: Path) -> list[tuple[Path, str, list[str]]]:
    """Mount point, cgroup or cgroup2, options: v1 before v2, because a controller is in one."""
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:
        return []
    found = [(Path(w[1]), w[2], w[3].split(",")) for w in lines if w[2] in ("cgroup", "cgroup2")]
    return sorted(found, key=lambda one: one[1])


def _own(membership: Path, controller: str) -> str | None:
    """Cgroup of the harness, relative to the mount; controller "" is v2."""
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return None
    return next((path for _, names, path in lines if controller in names.split(",")), None)


def _delegated(place: Path, back: Path, controller: Controller) -> Path | None:
    """Nearest cgroup above the harness's in which new ones can have the controller."""
    above = [back] if back == place else list(back.parents)
    for parent in above:
        if place != parent and place not in parent.parents:
            return None
        control = parent / "cgroup.subtree_control"
        offered = _words(parent / "cgroup.controllers")
        if controller.value in offered and _is_writable(parent, "cgroup.subtree_control"):
            is_root = parent == place and not (parent / "cgroup.type").exists()
            is_free = is_root or not _words(parent / _PROCS)  # a container's own is no root
            return parent if controller.value in _words(control) or is_free else None
    return None


def _left_bytes(place: Path, kind: str) -> float:
    """Memory that the limit of one cgroup leaves; inf without a limit."""
    files = _MEMORY_FILES[kind]
    limit, used = (_words(place / file) for file in files[:2])
    counts = dict(line.split() for line in _lines(place / "memory.stat"))
    if not (limit and used and limit[0].isdecimal()):
        return math.inf
    return int(limit[0]) - int(used[0]) + int(counts.get(files[2], 0))


def _is_writable(place: Path, file: str) -> bool:
    return os.access(place, os.W_OK | os.X_OK) and os.access(place / file, os.W_OK)


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _enable(parent: Path, controller: Controller) -> None:
    if controller.value not in _words(parent / "cgroup.subtree_control"):
        (parent / "cgroup.subtree_control").write_text(f"+{controller.value}")


def _move(pid: int, into: Path) -> None:
    try:
        (into / _PROCS).write_text(str(pid))
    except ProcessLookupError:
        return
    except OSError as error:
        raise FleetError(f"process {pid} cannot be moved to the cgroup {into}: {error}") from error
