"""A volume of its own beneath one folder, which can be full and have room again.

    mount ─► folder on a tmpfs ── fill: as large as what is in it ──► "No space left on device"
                     │          ◄─ free: room again ──────────────┘
                     └─ release: what is in it stays behind, on the disk beneath

Filled and freed by `disk`. The kernel's own limit refuses the writes: no program is in between,
and no space is wasted to fill it. Needs Linux and the right to mount (CAP_SYS_ADMIN); `can_mount`
says whether that is so here.
On a tmpfs `fsync` costs nothing, so what runs on one is faster than on a disk.
"""

import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaoslab.core.errors import FleetError
from chaoslab.core.process_identity import has_capability
from chaoslab.fleet.storage import disk, power
from chaoslab.fleet.storage.disk import Space
from chaoslab.fleet.storage.power import Cut

_CAP_SYS_ADMIN = 21
_MNT_DETACH = 2
_log = logging.getLogger(__name__)


def can_mount() -> bool:
    """Whether this process may mount; what forbids it beyond its rights shows at the attempt."""
    kinds = Path("/proc/filesystems")
    knows_tmpfs = kinds.exists() and "tmpfs" in kinds.read_text(encoding="ascii").split()
    return knows_tmpfs and has_capability(_CAP_SYS_ADMIN)


def can_lose_power() -> bool:
    """Whether a node can be given a file system whose power can be cut."""
    return can_mount() and not power.why_not()


def mount(folder: Path) -> None:
    """Put an empty volume beneath a folder, which is made; FleetError if it cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    with _told("mounted", folder):
        disk.mount(folder, disk.NO_SUID | disk.NO_DEVICES, f"{disk.ROOM},mode=0700")


def mount_powered(folder: Path) -> None:
    """Put a file system beneath a folder that loses what was not flushed; FleetError."""
    folder.mkdir(parents=True, exist_ok=True)
    with _told("mounted", folder):
        power.mount(folder.resolve())


def cut_power(folder: Path) -> Cut:
    """Let it lose what was not flushed; FleetError if that is refused."""
    with _told("cut off from its power", folder):
        return power.cut(folder.resolve())


def fill(folder: Path) -> Space:
    """Leave no room: the volume ends where its contents end. FleetError if that is refused."""
    with _told("mounted", folder):
        return disk.fill(folder)


def free(folder: Path) -> Space:
    """Give it room again; what is in it stays."""
    with _told("mounted", folder):
        return disk.free(folder)


def measure(folder: Path) -> Space:
    """Sizes of the volume with the folder, by the kernel; FleetError without an answer."""
    with _told("measured", folder):
        return disk.measure(folder)


def is_mounted(folder: Path) -> bool:
    """Whether a volume of ours is there."""
    return any(where == str(folder.resolve()) for where in mounted())


def mounted() -> list[str]:
    """Present mount points of our volumes, on the whole machine."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    words = [line.split() for line in lines]
    ours = (w for w in words if w[0] == disk.SOURCE.decode() or power.is_ours(w[0]))
    return [_plain(word[1]) for word in ours]


def release(folder: Path) -> None:
    """Unmount, and leave what was in it in the folder beneath. Safe to repeat.

    FleetError if it cannot be unmounted. What cannot be kept, because the disk beneath is full, is
    lost, and that is logged.
    """
    kept = folder.with_name(f".{folder.name}.kept")
    if is_mounted(folder):
        _copy(folder, kept)
        with _told("unmounted", folder):
            power.unmount(folder, _MNT_DETACH)
    power.forget(folder)
    if kept.is_dir():  # also where the one before was killed in the midst of it
        _copy(kept, folder)
        shutil.rmtree(kept, ignore_errors=True)


def _copy(what: Path, into: Path) -> None:
    try:
        shutil.copytree(what, into, symlinks=True, dirs_exist_ok=True)
    except OSError as error:
        _log.warning("not all of what was in a volume is kept in %s: %s", into, error)


@contextmanager
def _told(what: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise FleetError(
            f"the volume at {folder} cannot be {what}: {why}; see `chaoslab doctor`"
        ) from error


def _plain(path: str) -> str:
    r"""A path of the table of mounts, in which blanks are written as \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
